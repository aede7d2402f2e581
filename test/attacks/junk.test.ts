/**
 * @file Thousands of signals of junk to one fleet, fifty in flight all the time: its runs end, what they said is counted, and another tenant's jobs
 * end. How long they take is judged by `bench floods`: a flood that begins on an idle fleet holds its first task at the server's lock
 * (docs/decisions/0119-flooded-tasks-end.md).
 */

import proto from "@temporalio/proto";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";
import {
  expectAudited,
  expectEnded,
  FLOOD_TEST_MS,
  flooded,
  FLOODED_FLEET,
} from "./flooded-fleet.ts";

const { WORKFLOW_TASK_FAILED_CAUSE_FORCE_CLOSE_COMMAND } =
  proto.temporal.api.enums.v1.WorkflowTaskFailedCause;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLOODED_FLEET });
});
afterAll(() => world.stop());

it.each([5_000, 10_000])(
  "%i signals",
  async (count) => {
    const times = await flooded(world, { flood: "junk", count, inFlight: 50 });
    expect(times.taken).toBeGreaterThan(0.9 * count);
    expectEnded(times);
    const { deadLetters } = await world.until(
      "it is counted",
      (ledger) => ledger.deadLetters.reduce((sum, { times = 1 }) => sum + times, 0) > 0.9 * count,
    );
    expect(deadLetters.length).toBeLessThanOrEqual(50);
    await expectAudited(world, times);
    expect(await failuresByTheServer()).toEqual([]);
  },
  FLOOD_TEST_MS,
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
