import { describe, expect, it } from "vitest";
import { completeIn, taskCheckpointDir, tokenDir } from "../../../agent/folder/checkpoints.ts";
import { fakeAgent, ranksOn } from "../fake-host.ts";
import { FakeMachine } from "../fakes.ts";
import { batchOf, filesOf } from "../batch-fixture.ts";
import { orderOf, stopOf } from "../fixture.ts";
import { savingRun } from "../saving-run.ts";

const GRACE_MS = 30_000;

const running = (writesAfterMs: number) => savingRun({ graceMs: GRACE_MS, writesAfterMs });

describe("an order to checkpoint", () => {
  it("is done as soon as a new checkpoint is complete", async () => {
    const { machine, agent, order, made } = await running(5_000);
    const startMs = machine.uptimeMs;
    const done = await machine.until(agent.orders.checkpoint(order));
    expect(done).toMatchObject({ isComplete: true, checkpoint: made()[0] });
    expect(machine.uptimeMs - startMs).toBeLessThan(5_300);
  });

  it("fails when its grace is over", async () => {
    const { machine, agent, order } = await running(GRACE_MS + 1_000);
    const startMs = machine.uptimeMs;
    expect(await machine.until(agent.orders.checkpoint(order))).toMatchObject({
      isComplete: false,
      message: expect.stringContaining("30 s"),
    });
    expect(machine.uptimeMs - startMs).toBeGreaterThanOrEqual(GRACE_MS);
  });
});

/** Tasks of a batch that have begun. From the last one's start on the disk is full: its line is in the journal, that of its processes is not. */
async function runningBatch(count: number) {
  const machine = new FakeMachine();
  const agent = fakeAgent(machine);
  const order = batchOf("train", {
    ...{ tasks: [...Array(count).keys()], slots: count },
    run: {
      checkpoint: { order: { kind: "signal", signal: "SIGUSR1" }, graceMs: GRACE_MS as never },
    },
  });
  const { journal } = filesOf(agent, order);
  const disk = { isFull: false };
  machine.faultOf = ({ path }) => (disk.isFull && path === journal ? "ENOSPC" : undefined);
  const startShim = machine.onStart;
  machine.onStart = (started) => {
    startShim(started);
    disk.isFull ||= started.order.env["ARRAY_INDEX"] === String(count - 1);
  };
  const report = agent.runs.run(order);
  await machine.pass(1_000);
  const ranks = ranksOn(machine);
  expect(ranks).toHaveLength(count);
  return { machine, agent, order, report, ranks, disk };
}

it("an order to checkpoint reaches the processes of a task that have started and are not written down yet", async () => {
  const { machine, agent, order, report, ranks, disk } = await runningBatch(1);
  const { files } = machine.system();
  const dir = tokenDir(
    taskCheckpointDir(agent.host.layout.checkpointDir(order.jobId), 0),
    order.token,
  );
  machine.onSignal = () => files.write(`${dir}/step-1`, "w");
  const done = agent.orders.checkpoint(order);
  await machine.pass(1_000);
  expect(completeIn(files, dir, undefined)).toEqual([]);
  disk.isFull = false;
  expect(await machine.until(done)).toMatchObject({ isComplete: true });
  expect(completeIn(files, dir, undefined)).toHaveLength(1);
  for (const rank of ranks) rank.end({ exitCode: 0 });
  expect((await machine.until(report)).end).toBe("completed");
});

it("an order to checkpoint reaches the tasks that are written down, also where another never is", async () => {
  const { machine, agent, order, report, ranks, disk } = await runningBatch(2);
  const signals: string[] = [];
  machine.onSignal = (_process, signal) => signals.push(signal);
  const done = agent.orders.checkpoint(order);
  await machine.pass(GRACE_MS / 2);
  expect(signals).toEqual(["SIGUSR1"]);
  expect(await machine.until(done)).toMatchObject({ isComplete: false });
  disk.isFull = false;
  for (const rank of ranks) rank.end({ exitCode: 0 });
  expect((await machine.until(report)).end).toBe("completed");
});

describe("an order to stop", () => {
  it("waits for the checkpoint, then TERM, the grace, KILL, and returns when nothing runs", async () => {
    const { machine, agent, order, report, signals } = await running(5_000);
    const stopped = await machine.until(agent.orders.stop(stopOf(order, true)));
    expect(stopped.checkpoint?.path).toContain("step-1");
    expect(signals).toEqual(["SIGUSR1", "SIGTERM", "SIGKILL"]);
    expect(machine.running.size).toBe(0);
    expect((await machine.until(report)).end).toBe("stopped");
  });

  it("of a second that wants no checkpoint ends the wait of the first", async () => {
    const { machine, agent, order } = await running(GRACE_MS * 2);
    const startMs = machine.uptimeMs;
    const first = agent.orders.stop(stopOf(order, true));
    await machine.pass(1_000);
    await machine.until(agent.orders.stop(stopOf(order)));
    await machine.until(first);
    expect(machine.uptimeMs - startMs).toBeLessThan(6_000);
  });

  it("of an unknown lease refuses the run that comes later", async () => {
    const machine = new FakeMachine();
    const agent = fakeAgent(machine);
    const order = orderOf("train");
    await machine.until(agent.orders.stop(stopOf(order)));
    await expect(machine.until(agent.runs.run(order))).rejects.toMatchObject({
      type: "STALE_TOKEN",
    });
  });
});
