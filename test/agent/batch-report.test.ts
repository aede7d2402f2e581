import { describe, expect, it } from "vitest";
import type { RankGroupStatus } from "../../agent/folder/launch-files.ts";
import { batchReport, type BatchFacts } from "../../agent/runs/task-report.ts";
import type { TaskTurn } from "../../agent/folder/slot-journal.ts";
import { progressOf } from "../../agent/runs/batch-progress.ts";
import { unpackEnds } from "../../protocol/packed-ends.ts";
import { HOST, OTHER_HOST } from "./fixture.ts";
import { batchOf, endOf, endsOf } from "./batch-fixture.ts";

const SHIM = { bootId: "this-boot", pid: 7, started: "1" };
const OVER: BatchFacts["phase"] = {
  kind: "ended",
  shim: SHIM,
  status: { phase: "ended", startedAtMs: 100, endedAtMs: 900, ranks: [] },
};
const LOST: BatchFacts["phase"] = { kind: "lost", shim: SHIM, status: undefined };

const ran = (end: Partial<RankGroupStatus> & { readonly exitCode?: number }): TaskTurn => {
  const { exitCode = 0, ...status } = end;
  const ranks = [{ rank: 0, end: { exitCode, atMs: 200 } }];
  return {
    startedAtMs: 100,
    isOver: true,
    status: { startedAtMs: 100, endedAtMs: 200, ranks, ...status },
  };
};
const FAILED = ran({
  exitCode: 3,
  failure: { rank: 0, kind: "exited", exitCode: 3, atMs: 200 },
});
const REFUSED = ran({
  exitCode: 126,
  failure: { rank: 0, kind: "not-started", exitCode: 126, message: "EAGAIN for sh", atMs: 200 },
});
const RUNNING: TaskTurn = { startedAtMs: 100, isOver: false, status: { ranks: [{ rank: 0 }] } };
const TERMED = ran({ endedAtMs: 310, ranks: [{ rank: 0, end: { exitCode: 0, atMs: 310 } }] });
const SKIPPED: TaskTurn = { isOver: true, stop: { reason: "not wanted", atMs: 150 } };
const STOP = { reason: "preempted", atMs: 300, termAtMs: 300 };

const factsOf = (over: Partial<BatchFacts>): BatchFacts => {
  const order = batchOf("");
  return {
    order,
    batch: order.taskBatch,
    phase: OVER,
    stop: undefined,
    bootId: "this-boot",
    checkpoint: undefined,
    turns: new Map([0, 1, 2].map((task) => [task, ran({})])),
    lastLines: () => "",
    nowMs: 1_000,
    ...over,
  };
};
const turnsOf = (...turns: readonly (TaskTurn | undefined)[]): BatchFacts["turns"] =>
  new Map(turns.flatMap((turn, task) => (turn === undefined ? [] : [[task, turn]])));

describe("the report of a batch", () => {
  it.each([
    {
      name: "all tasks had their turn",
      facts: { turns: turnsOf(ran({}), FAILED, SKIPPED) },
      want: { end: "completed", tasks: "0:completed 1:failed 2:stopped", code: undefined },
    },
    {
      name: "the shim was killed after its last task had ended",
      facts: { phase: LOST },
      want: { end: "completed", tasks: "0:completed 1:completed 2:completed", code: undefined },
    },
    {
      name: "the shim was killed while a task ran",
      facts: { phase: LOST, turns: turnsOf(FAILED, RUNNING) },
      want: { end: "failed", tasks: "0:failed 1:stopped 2:not-run", code: "HOST_LOST" },
    },
    {
      name: "it was stopped while a task ran, which saved and left with 0",
      facts: { stop: STOP, turns: turnsOf(FAILED, TERMED) },
      want: { end: "stopped", tasks: "0:failed 1:stopped 2:not-run", code: "STOPPED" },
    },
    {
      name: "the stop came when all was over",
      facts: { stop: STOP },
      want: { end: "completed", tasks: "0:completed 1:completed 2:completed", code: undefined },
    },
    {
      name: "the host was cut off, which is no task's fault",
      facts: { stop: { ...STOP, cutOffMs: 600_000 }, turns: turnsOf(ran({}), TERMED) },
      want: { end: "failed", tasks: "0:completed 1:stopped 2:not-run", code: "HOST_LOST" },
    },
    {
      name: "a task was at its time limit before the stop",
      facts: { stop: STOP, turns: turnsOf(ran({ limitAtMs: 250 }), TERMED) },
      want: { end: "stopped", tasks: "0:failed 1:stopped 2:not-run", code: "STOPPED" },
    },
    {
      name: "the machine could not start a process, which is no task's fault",
      facts: { turns: turnsOf(ran({}), REFUSED, FAILED) },
      want: { end: "failed", tasks: "0:completed 1:stopped 2:failed", code: "HOST_REFUSED" },
    },
    {
      name: "it was revoked before it started",
      facts: {
        phase: { kind: "revoked" as const, reason: "called off", atMs: 50 },
        turns: turnsOf(),
      },
      want: { end: "stopped", tasks: "0:not-run 1:not-run 2:not-run", code: "STOPPED" },
    },
  ])("when $name", ({ facts, want }) => {
    const report = batchReport(factsOf(facts));
    expect({ end: report.end, tasks: endsOf(report), code: report.cause?.code }).toEqual(want);
    expect(report.ranks).toEqual([]);
  });

  it("of a task over several hosts that is stopped, as for another host that failed first, is that of a lost host where a GPU broke here", () => {
    const gang = [
      { host: HOST, mask: 1, address: "10.0.0.1" },
      { host: OTHER_HOST, mask: 1, address: "10.0.0.2" },
    ];
    const order = { ...batchOf("", { tasks: [0] }), gang };
    const facts = factsOf({ order, batch: order.taskBatch, stop: STOP, turns: turnsOf(TERMED) });
    expect(batchReport(facts)).toMatchObject({ end: "stopped", cause: { code: "STOPPED" } });
    const fault = { text: "GPU 0:28:00: Xid 79", atMs: 180 };
    expect(batchReport({ ...facts, fault })).toMatchObject({
      ...{ end: "failed", cause: { code: "HOST_LOST", atMs: 180 } },
      tasks: [{ task: 0, end: "stopped" }],
    });
  });

  it("has the ends packed where the batch asks for that, with no more messages than it wants", () => {
    const facts = factsOf({ turns: turnsOf(FAILED, ran({}), FAILED) });
    const plain = batchReport(facts).tasks ?? [];
    const report = batchReport({ ...facts, batch: { ...facts.batch, mostTexts: 1 } });
    expect(report).not.toHaveProperty("tasks");
    if (report.packedTasks === undefined) throw new Error("nothing is packed");
    const [first, second, third] = unpackEnds(facts.batch.tasks, report.packedTasks);
    expect([first, second]).toEqual(plain.slice(0, 2));
    expect(first?.message).toContain("exit code 3");
    expect(third).toEqual({ ...plain[2], message: undefined });
  });

  it("names the restart of the machine at the tasks that it cut off", () => {
    const report = batchReport(
      factsOf({ phase: LOST, bootId: "next-boot", turns: turnsOf(RUNNING) }),
    );
    expect(endOf(report, 0)?.message).toContain("eu-1/host-1 was restarted while toy[0] ran there");
  });

  it("counts for heartbeats what runs, has ended and has failed by itself", () => {
    const named = { ...FAILED, stop: { reason: "not wanted", atMs: 150 } };
    expect(progressOf(turnsOf(RUNNING, FAILED, named, ran({}), SKIPPED))).toEqual({
      running: [0],
      ended: 4,
      failed: 1,
    });
  });
});
