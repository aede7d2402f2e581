/** @file A fleet that was terminated starts again and finds out what there is; jobs that were reset or terminated leak nothing. */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { startFleet } from "../../cli/up/fleet-start.ts";
import { serverAddress } from "../support/server-address.ts";
import { fleetOf, SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { isAlive } from "../support/processes.ts";
import { removeFolder } from "../support/remove-folder.ts";

/** Of the server's enumeration of events. */
const WORKFLOW_TASK_COMPLETED = 7;

let world: World;
let notes: string;
beforeAll(async () => {
  notes = mkdtempSync(path.join(tmpdir(), "orbweaver-recovery-"));
  const fleetYaml = SMALL_FLEET.replace(
    "    simulated: true",
    "    simulated: true\n    silence: 10s\n    fence: 20s",
  );
  world = await startWorld({ address: serverAddress(), fleetYaml });
});
afterAll(async () => {
  await world.stop();
  removeFolder(notes);
});

const linesOf = (name: string): readonly string[] => {
  try {
    return readFileSync(path.join(notes, name), "utf8").trim().split("\n");
  } catch {
    return [];
  }
};

const submit = (name: string, gpus: number, line: string) =>
  world.orbweaver.submit({
    name,
    gang: { gpus },
    run: { command: ["sh", "-c", `echo $$ >> ${notes}/${name}; ${line}`], launch: "per-host" },
  });

/** To the last task that it has finished. */
async function resetToLastTask(jobId: string): Promise<void> {
  const handle = world.temporal.workflow.getHandle(jobId);
  const { runId } = await handle.describe();
  const { events } = await handle.fetchHistory();
  const last = events?.filter(({ eventType }) => eventType === WORKFLOW_TASK_COMPLETED).at(-1);
  await world.temporal.workflowService.resetWorkflowExecution({
    namespace: "default",
    workflowExecution: { workflowId: jobId, runId },
    workflowTaskFinishEventId: last?.eventId ?? null,
    requestId: `${jobId}-reset-to-last`,
    reason: "by a test",
  });
}

it("after the fleet was terminated, running jobs run on, waiting ones are granted, and no GPU is given twice; one that was asked then can be reset", async () => {
  const long = await submit("long", 8, `while [ ! -e ${notes}/go ]; do sleep 0.1; done`);
  await expect.poll(() => linesOf("long").length).toBe(2);
  const waiting = await submit("waiting", 12, "true");
  const before = await world.until(
    "it waits",
    ({ requests, leases }) => requests.size === 1 && leases.size === 1,
  );

  await world.temporal.workflow.getHandle(fleetWorkflowId(world.fleet)).terminate("by a test");
  // Whoever has something to say to the closed fleet starts it again; it waits its turn behind the one that waited before.
  const small = await submit("small", 2, "true");

  const after = await world.until(
    "the new run knows the long job's lease and the requests",
    ({ nextToken, requests, leases }) =>
      nextToken > before.nextToken + 1_000_000 &&
      requests.size === 2 &&
      [...leases.values()].some(
        ({ jobId, isUnconfirmed }) => jobId === long.jobId && isUnconfirmed === undefined,
      ),
  );
  const lease = [...after.leases.values()].find(({ jobId }) => jobId === long.jobId);
  expect(lease?.id).toBe([...before.leases.keys()][0]);
  expect(after.requests.has(waiting.jobId)).toBe(true);

  expect(linesOf("long")).toHaveLength(2);

  // Its next run repeats the answer, under an id of its own.
  const asked = world.temporal.workflow.getHandle(long.jobId);
  const tasks = async (): Promise<number> =>
    (await asked.fetchHistory()).events?.filter(
      ({ eventType }) => eventType === WORKFLOW_TASK_COMPLETED,
    ).length ?? 0;
  const answered = await tasks();
  await asked.signal("nothing");
  await expect.poll(tasks).toBeGreaterThan(answered);
  const { runId: formerRun } = await asked.describe();
  await resetToLastTask(long.jobId);

  writeFileSync(path.join(notes, "go"), "");
  for (const { jobId } of [waiting, small])
    expect(await world.temporal.workflow.getHandle(jobId).result()).toMatchObject({ attempts: 1 });
  expect(await asked.result()).toMatchObject({ gpus: 8 });
  expect((await asked.describe()).runId).not.toBe(formerRun);
  await world.until(
    "nothing is held",
    ({ leases, requests }) => leases.size === 0 && requests.size === 0,
  );
});

it("`orbweaver up` on a fleet that was terminated goes on from its last run: drains stay, tokens count on", async () => {
  const handle = world.temporal.workflow.getHandle(fleetWorkflowId(world.fleet));
  const { runId } = await handle.describe();
  expect((await world.cli(["drain", "alpha/a1"])).code).toBe(0);
  const before = await world.until("it is drained", ({ hosts }) =>
    [...hosts.values()].some(({ isDrained }) => isDrained),
  );
  await expect.poll(async () => (await handle.describe()).runId === runId).toBe(false);
  await handle.terminate("by a test");
  const start = { name: world.fleet, fleet: fleetOf(SMALL_FLEET), detailsHash: undefined };
  expect(await startFleet(world.temporal, start)).toBe(false);
  const after = await world.until(
    "it runs again",
    ({ nextToken, hosts }) =>
      nextToken > before.nextToken + 1_000_000 &&
      [...hosts.values()].filter(({ agent }) => agent !== undefined).length === 3,
  );
  expect([...after.hosts].flatMap(([host, { isDrained }]) => (isDrained ? [host] : []))).toEqual([
    "alpha/a1",
  ]);
  expect((await world.cli(["undrain", "alpha/a1"])).code).toBe(0);
});

it("a job that was terminated holds nothing after a while, and its processes are gone", async () => {
  const { jobId } = await submit("killed", 4, "exec sleep 600");
  await expect.poll(() => linesOf("killed").length).toBe(1);
  await world.temporal.workflow.getHandle(jobId).terminate("by a test");
  await world.until("its lease is gone", ({ leases }) => leases.size === 0);
  expect(isAlive(Number(linesOf("killed")[0]))).toBe(false);
});

it("a waiting job that was terminated leaves the line", async () => {
  const blocker = await submit("blocker", 12, `while [ ! -e ${notes}/go2 ]; do sleep 0.1; done`);
  await expect.poll(() => linesOf("blocker").length).toBe(3);
  const { jobId } = await submit("leaves", 12, "true");
  await world.until("it waits", ({ requests }) => requests.has(jobId));
  await world.temporal.workflow.getHandle(jobId).terminate("by a test");
  await world.until("its request is gone", ({ requests }) => requests.size === 0);
  writeFileSync(path.join(notes, "go2"), "");
  await world.temporal.workflow.getHandle(blocker.jobId).result();
  await world.until("nothing is held", ({ leases }) => leases.size === 0);
});

it("a job that was reset while it ran runs again under its new run, and once at a time", async () => {
  const { jobId } = await submit(
    "reset",
    4,
    `[ "$(wc -l < ${notes}/reset)" -gt 1 ] || exec sleep 600`,
  );
  await expect.poll(() => linesOf("reset").length).toBe(1);
  const handle = world.temporal.workflow.getHandle(jobId);
  const { runId } = await handle.describe();
  const { history } = await world.temporal.workflowService.getWorkflowExecutionHistory({
    namespace: "default",
    execution: { workflowId: jobId, runId },
  });
  const firstTask = history?.events?.find((event) => event.eventType === WORKFLOW_TASK_COMPLETED);
  await world.temporal.workflowService.resetWorkflowExecution({
    namespace: "default",
    workflowExecution: { workflowId: jobId, runId },
    workflowTaskFinishEventId: firstTask?.eventId ?? null,
    requestId: `${jobId}-reset`,
    reason: "by a test",
  });
  const result = await world.temporal.workflow.getHandle(jobId).result();
  expect(result).toMatchObject({ gpus: 4 });
  expect(isAlive(Number(linesOf("reset")[0]))).toBe(false);
  await world.until(
    "nothing is held",
    ({ leases, requests }) => leases.size === 0 && requests.size === 0,
  );
});
