/**
 * @file A fleet's worker dies, and a flood of requests comes before it is back: nothing is lost, and another tenant's request, which came last, is read with
 * the first slice. Counts turns of the fleet, not seconds.
 */

import { afterAll, beforeAll, expect, it } from "vitest";
import { FLOODS } from "../../bench/floods/floods.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";
import { FLOODED_FLEET } from "./flooded-fleet.ts";

/** In eight signals of about 190 KB; a turn has 512 KiB of words proven and folds 1,000 entries. */
const REQUESTS = 4_000;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLOODED_FLEET });
});
afterAll(() => world.stop());

const eventsOf = async (workflowId: string, runId?: string) =>
  (await world.temporal.workflow.getHandle(workflowId, runId).fetchHistory()).events ?? [];

/** Of the fleet's run with this id and of those after it: a flood may end a run at any time. */
async function fleetEventsFrom(firstRunId: string) {
  const all: Awaited<ReturnType<typeof eventsOf>>[number][] = [];
  for (let runId = firstRunId; runId !== "";) {
    const events = await eventsOf(fleetWorkflowId(world.fleet), runId);
    all.push(...events);
    runId = events.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? "";
  }
  return all;
}

/** Its request has come to its fleet by then. */
async function untilAdmitted(jobId: string): Promise<void> {
  while ((await eventsOf(jobId)).every(({ markerRecordedEventAttributes: marker }) => !marker))
    await new Promise((resolve) => setTimeout(resolve, 200));
}

it("reads the request of another tenant before most of a flood that came earlier", async () => {
  const { temporal, orbweaver, fleet } = world;
  const { runId } = await temporal.workflow.getHandle(fleetWorkflowId(fleet)).describe();
  await world.kill("fleet");
  const known = (await fleetEventsFrom(runId)).length;
  const flood = { count: REQUESTS, inFlight: 4, label: `${fleet}-flood` };
  expect(await FLOODS.requests(world, flood)).toBe(REQUESTS);
  const { jobId } = await orbweaver.submit(
    {
      name: "bystander",
      tenant: "bystander",
      gang: { gpus: 1 },
      run: { command: ["sleep", "300"] },
    },
    { idempotencyKey: `${fleet}-bystander` },
  );
  await untilAdmitted(jobId);
  await world.start("fleet", ["worker", "--role", "fleet"]);
  const { leases } = await world.until("the job has its lease", (ledger) =>
    [...ledger.leases.values()].some((lease) => lease.jobId === jobId),
  );
  const grantedAtMs = [...leases.values()].find((lease) => lease.jobId === jobId)?.grantedAtMs ?? 0;
  await world.until("all of the flood is read", (ledger) => ledger.nextArrival > REQUESTS);
  const turnsEndedAtMs = (await fleetEventsFrom(runId))
    .slice(known)
    .filter(({ markerRecordedEventAttributes: marker }) => marker)
    .map(({ eventTime: time }) => Number(time?.seconds) * 1_000 + (time?.nanos ?? 0) / 1e6);
  expect(turnsEndedAtMs.filter((atMs) => atMs > grantedAtMs).length).toBeGreaterThan(4);
  expect(turnsEndedAtMs.filter((atMs) => atMs <= grantedAtMs).length).toBeLessThanOrEqual(2);
  await temporal.workflow.getHandle(jobId).terminate();
});
