/** @file What a client tells workflows waits until its server is known; what it reads does not. */

import { Client } from "@temporalio/client";
import { setImmediate as settled } from "node:timers/promises";
import { expect, it } from "vitest";
import { heldWrites } from "../../workers/held-writes.ts";

/** A client on a server that answers nothing, and the calls that it gets. */
function clientWith(ready: Promise<void>): {
  readonly client: Client;
  readonly calls: readonly string[];
} {
  const calls: string[] = [];
  const workflowService = new Proxy(
    {},
    {
      get: (_, name) => () => {
        calls.push(String(name));
        return Promise.reject(new Error("nothing is here"));
      },
    },
  );
  const connection = {
    workflowService,
    plugins: [],
    withDeadline: (_: unknown, call: () => unknown) => call(),
  };
  const client = new Client({
    connection: connection as unknown as NonNullable<Client["connection"]>, // the parts that a client of workflows uses
    interceptors: { workflow: [heldWrites(() => ready)] },
  });
  return { client, calls };
}

const start = { workflowId: "w", taskQueue: "q" };
const written = ({ workflow }: Client): readonly Promise<unknown>[] => [
  workflow.start("wake", start),
  workflow.signalWithStart("wake", { ...start, signal: "s" }),
  workflow.getHandle("w").signal("s"),
  workflow.getHandle("w").terminate(),
  workflow.getHandle("w").cancel(),
  workflow.getHandle("w").startUpdate("u", { waitForStage: "ACCEPTED" }),
];

it("is what starts, tells or ends a workflow, until the server is known", async () => {
  let isKnown = (): void => undefined;
  const { client, calls } = clientWith(new Promise((resolve) => (isKnown = resolve)));
  const results = Promise.allSettled(written(client));
  await client.workflow
    .getHandle("w")
    .query("q")
    .catch(() => undefined);
  for (let turn = 0; turn < 10; turn += 1) await settled();
  expect(calls).toEqual(["queryWorkflow"]);
  isKnown();
  expect((await results).length).toBe(calls.length - 1);
});

it("goes nowhere where another server is found", async () => {
  const refusal = new Error("the key is not the fleet's");
  const { client, calls } = clientWith(Promise.reject(refusal));
  for (const result of await Promise.allSettled(written(client)))
    expect(result).toEqual({ status: "rejected", reason: refusal });
  expect(calls).toEqual([]);
});
