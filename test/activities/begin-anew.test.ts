/** @file The end of a flooded run by force: of the run that asks and no other, and the next one's start. */

import { asyncLocalStorage, type Context } from "@temporalio/activity";
import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { describe, expect, it } from "vitest";
import { beginAnew } from "../../activities/begin-anew.ts";
import { fleetWorkflowId, type FleetInput } from "../../protocol/messages.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { fleetShape, readyLedger } from "../scheduling/builders.ts";

const ledger = packLedger(readyLedger(fleetShape([{ hosts: [{}] }])));
const INPUT: FleetInput = { name: "eu", ledger, rules: ledger.applyVersion };
const RUN = { workflowId: fleetWorkflowId("eu"), runId: "r1" };

/** What is asked of the server, in its order. */
function played({ isThere }: { readonly isThere: boolean }) {
  const calls: unknown[] = [];
  const workflow = {
    getHandle: (workflowId: string, runId: string) => ({
      terminate: () => {
        calls.push(["terminate", workflowId, runId]);
        const gone = new WorkflowNotFoundError("gone", workflowId, runId);
        return isThere ? Promise.resolve() : Promise.reject(gone);
      },
    }),
    start: (_type: string, { args, workflowIdConflictPolicy: policy }: Record<string, unknown>) => {
      calls.push(["start", policy, args]);
      return Promise.resolve();
    },
  };
  return { client: { workflow } as unknown as Client, calls };
}

const asked = (client: Client, isLocal: boolean, run = RUN): Promise<unknown> =>
  asyncLocalStorage.run({ info: { isLocal, workflowExecution: run } } as unknown as Context, () =>
    beginAnew(client, INPUT),
  );

describe("a fleet that begins itself anew", () => {
  it("ends the run that asks, by its id, and starts the next with what it hands on", async () => {
    const { client, calls } = played({ isThere: true });
    await asked(client, true);
    expect(calls).toEqual([
      ["terminate", RUN.workflowId, "r1"],
      ["start", "FAIL", [INPUT]],
    ]);
  });

  it("starts nothing where that run has ended by other hands", async () => {
    const { client, calls } = played({ isThere: false });
    await asked(client, true);
    expect(calls).toEqual([["terminate", RUN.workflowId, "r1"]]);
  });

  it.each([
    { name: "by an activity of a workflow", isLocal: false, run: RUN },
    { name: "of another workflow", isLocal: true, run: { ...RUN, workflowId: "mallory" } },
  ])("is not asked $name", async ({ isLocal, run }) => {
    const { client, calls } = played({ isThere: true });
    await expect(asked(client, isLocal, run)).rejects.toMatchObject({ type: "NOT_ALLOWED" });
    expect(calls).toEqual([]);
  });
});
