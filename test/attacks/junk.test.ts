/**
 * @file Thousands of signals of junk to one fleet, fifty in flight all the time: its runs end, what they said is counted, and another tenant's jobs
 * end while the flood lasts, not when it is over.
 */

import proto from "@temporalio/proto";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { startWorld, type World } from "../support/world.ts";
import { flooded, FLOODED_FLEET } from "./flooded-fleet.ts";

const { WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND } =
  proto.temporal.api.enums.v1.WorkflowTaskFailedCause;

/** The bar of `bench floods` is 10 s on two quiet cores; beside other tests it is missed. */
const DURING_MS = 30_000;
/** On a slow machine the flood itself lasts longer: a job may take this share of it. One that waits for its end takes all of it. */
const DURING_SHARE = 0.6;
const AFTER_MS = 30_000;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: inject("temporalAddress"), fleetYaml: FLOODED_FLEET });
});
afterAll(() => world.stop());

it.each([5_000, 10_000])(
  "%i signals",
  async (count) => {
    const { taken, floodMs, duringMs, afterMs } = await flooded(world, {
      flood: "junk",
      count,
      inFlight: 50,
    });
    expect(taken).toBeGreaterThan(0.9 * count);
    expect(Math.max(...duringMs)).toBeLessThan(Math.max(DURING_MS, DURING_SHARE * floodMs));
    expect(Math.min(...afterMs)).toBeLessThan(AFTER_MS);
    const { deadLetters } = await world.ledger();
    expect(deadLetters.length).toBeLessThanOrEqual(50);
    expect(deadLetters.reduce((sum, { times = 1 }) => sum + times, 0)).toBeGreaterThan(0.9 * count);
    expect(await failuresByTheServer()).toEqual([]);
  },
  400_000,
);

/** Workflow tasks of the fleet's runs that the server failed because too much came while they were open (docs/decisions/0119-flooded-tasks-end.md). */
async function failuresByTheServer(): Promise<readonly string[]> {
  const found: string[] = [];
  const query = `WorkflowId = "${fleetWorkflowId(world.fleet)}"`;
  for await (const { workflowId, runId } of world.temporal.workflow.list({ query })) {
    const { events } = await world.temporal.workflow.getHandle(workflowId, runId).fetchHistory();
    for (const { eventId, workflowTaskFailedEventAttributes: failed } of events ?? [])
      if (failed?.cause === WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND)
        found.push(`${runId} ${String(eventId)}`);
  }
  return found;
}
