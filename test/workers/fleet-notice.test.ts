import type { Client } from "@temporalio/client";
import { describe, expect, it } from "vitest";
import { clusterId, hostId } from "../../domain/values/ids.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import { farewell, sayGone, sayHere, tellUntilHeard } from "../../workers/fleet-notice.ts";

const PLACE = { fleet: "north", cluster: clusterId("eu-1") };
const AGENT = { epoch: "e1", runQueue: "run.e1", orderQueue: "order.e1", address: "a" };

/** Remembers what is asked of the server. */
function recordingClient() {
  const asked: unknown[] = [];
  const workflow = {
    signalWithStart: (type: string, options: unknown) => {
      asked.push([type, options]);
      return Promise.resolve();
    },
    getHandle: (id: string) => ({
      signal: (signal: { readonly name: string }, ...args: readonly unknown[]) => {
        asked.push([id, signal.name, ...args]);
        return Promise.resolve();
      },
    }),
  };
  const withAbortSignal = (_: AbortSignal, call: () => Promise<unknown>) => call();
  // The parts of a client that are used here.
  return { asked, client: { workflow, withAbortSignal } as unknown as Client };
}

describe("what an agent says by itself", () => {
  it("here: starts the presence of its cluster where there is none", async () => {
    const { asked, client } = recordingClient();
    const present = { agent: AGENT, hosts: [hostId("eu-1", "h1")] };
    await sayHere(client, PLACE, present);
    expect(asked).toEqual([
      [
        "presence",
        expect.objectContaining({
          workflowId: "orbweaver-presence-north-eu-1",
          taskQueue: "orbweaver-jobs",
          args: [PLACE],
          signalArgs: [present],
        }),
      ],
    ]);
  });

  it("gone: with its epoch, to a presence that is there", async () => {
    const { asked, client } = recordingClient();
    await sayGone(client, PLACE, "e1");
    expect(asked).toEqual([["orbweaver-presence-north-eu-1", "deregister", { epoch: "e1" }]]);
  });

  it("vacated: until the fleet has it, or the agent ends", async () => {
    const entry: InboxEntry = { kind: "agent-deregistered", hosts: [], epoch: "e1" };
    let tries = 0;
    const deafOnce = (): Promise<void> =>
      (tries += 1) === 1 ? Promise.reject(new Error("no fleet")) : Promise.resolve();
    expect(await tellUntilHeard(deafOnce, entry, new AbortController().signal)).toBe(true);
    expect(tries).toBe(2);
    const closing = new AbortController();
    const deaf = (): Promise<void> => {
      closing.abort();
      return Promise.reject(new Error("no fleet"));
    };
    expect(await tellUntilHeard(deaf, entry, closing.signal)).toBe(false);
  });

  it("a farewell never fails", async () => {
    await farewell(() => Promise.reject(new Error("cut off")));
  });
});
