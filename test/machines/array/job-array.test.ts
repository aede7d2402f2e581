/** @file The life of an array without a server: batches, retries, lost hosts, preemption, holds, orders to tasks, and its end. */

import { describe, expect, it } from "vitest";
import { jobId, runId } from "../../../domain/values/ids.ts";
import { cancelAnswer, retryAnswer } from "../../../machines/array/named-tasks.ts";
import { refuseEnding, refuseTasks } from "../../../machines/array/task-orders.ts";
import { arraySummary } from "../../../machines/array/array-view.ts";
import { REFUSAL_REST_MS } from "../../../machines/job/refused-hosts.ts";
import { grantOf, grants, leaseNamed, NO_FLEET, playArray, START_MS } from "./builders.ts";

const OTHER = jobId("urgent");
const preemption = (lease: number) => ({
  kind: "preempt" as const,
  order: { seq: 1, lease: leaseNamed(lease), forJob: OTHER, reason: "due", graceMs: 9_000 },
});
const upTo = (count: number): number[] => Array.from({ length: count }, (_, task) => task);

describe("an array", () => {
  it("runs every task once, gives its lease back, tells the fleet that it is over, and has a result", () => {
    const played = playArray({ count: 10 });
    expect(played.view().state).toBe("pending");
    played.feed(grants(grantOf(1)));
    expect(played.view()).toMatchObject({ state: "running", array: { slots: 4 } });
    while (played.gang("run").length > 0) played.ran();
    expect(played.batches().flat()).toEqual(upTo(10));
    expect(played.deliver()).toMatchObject([
      { kind: "request", request: { seq: 2, slots: 0 } },
      { kind: "end", lease: leaseNamed(1), seq: 1, unconfirmedHosts: [] },
      { kind: "end", seq: 2, unconfirmedHosts: [] },
    ]);
    expect(played.outcome()).toMatchObject({
      kind: "completed",
      result: { hosts: ["alpha/h1"], attempts: 1, queuedMs: 0, tasks: { completed: 10 } },
    });
    const marks = played.open("mark").map(({ mark }) => mark);
    expect(marks).toEqual([{ state: "running", clusters: ["alpha"] }, { state: "completed" }]);
    expect(played.open("memo").at(-1)?.memo).toMatchObject({ count: 10, completed: 10 });
    expect(played.wait()).toBe(false);
  });

  it("takes the grants and the call that came before its file was read", () => {
    const entry = { earlyGrants: [[grantOf(1)], "junk", [grantOf(1)]] };
    const granted = playArray({ count: 1, entry });
    expect(granted.batches()).toEqual([[0]]);
    const outside = playArray({ entry: { call: { seq: 1, credit: 7, round: 0 } } });
    expect(outside.deliver()).toMatchObject([{ kind: "request", request: { seq: 1, credit: 7 } }]);
  });

  it("takes no more slots than it may use at once, and gives back what it does not need", () => {
    const played = playArray({ count: 100, parallel: 6 });
    played.feed(grants(grantOf(1), grantOf(2), grantOf(3)));
    expect(played.gang("run").map(({ command }) => command.order.taskBatch?.slots)).toEqual([4, 2]);
    expect(played.entries()).toMatchObject([{ kind: "end", seq: 1, lease: leaseNamed(3) }]);
  });

  it("starts nothing for a second copy of a grant, nor for a grant that comes with its cancellation", () => {
    const played = playArray();
    played.feed(grants(grantOf(1)), grants(grantOf(1)));
    played.feed(grants(grantOf(1)));
    expect(played.gang("run")).toHaveLength(1);
    const cancelled = playArray();
    cancelled.feed(grants(grantOf(1)), { kind: "cancel" });
    expect(cancelled.gang("run")).toEqual([]);
    expect(cancelled.deliver()).toMatchObject([{ lease: leaseNamed(1) }, { kind: "end", seq: 1 }]);
    expect(cancelled.outcome()).toEqual({ kind: "cancelled" });
  });

  it("ends a request long over with its last grant, for the hosts too that confirmed nothing", () => {
    const played = playArray({ count: 10, parallel: 8 });
    played.feed({ kind: "hold" });
    expect(played.told()).toMatchObject({ kind: "request", request: { seq: 2, slots: 0 } });
    played.feed(grants(grantOf(1)));
    expect(played.told()).toEqual({
      kind: "end",
      jobId: "played",
      runId: "run-1",
      seq: 1,
      unconfirmedHosts: [],
    });
    played.feed({ kind: "release" }, grants(grantOf(2)));
    expect(played.gang("run")).toEqual([]);
    expect(played.entries().at(-2)).toMatchObject({ kind: "end", seq: 1 });
  });

  it("runs a task that spans hosts alone in its batch, and counts the worst end", () => {
    const played = playArray({ count: 3, file: { gang: 2 } });
    played.feed(grants(grantOf(1, { slots: 1, hosts: ["a", "b"] })));
    expect(played.gang("run").map(({ command }) => command.order.taskBatch?.tasks)).toEqual([
      [0],
      [0],
    ]);
    played.ran(() => ({ end: "failed", exitCode: 3 }));
    expect(played.gang("stop")).toHaveLength(1);
    played.ran(() => ({ end: "stopped" }));
    played.stopped();
    expect(played.view().array?.firstFailed).toMatchObject([{ task: 0, exitCode: 3 }]);
  });

  it("runs the named tasks alone, and has completed when these have", () => {
    const played = playArray({ count: 10, tasks: "8,2-3" });
    expect(played.view().array?.counts).toMatchObject({ waiting: 3, cancelled: 7 });
    expect(played.view().array?.parallel).toBe(3);
    played.feed(grants(grantOf(1, { slots: 3 })));
    expect(played.batches()).toEqual([[2, 3, 8]]);
    played.ran();
    played.deliver();
    expect(played.outcome()).toMatchObject({
      kind: "completed",
      result: { tasks: { completed: 3, cancelled: 7 } },
    });
  });

  it("has failed when one of the named tasks was cancelled", () => {
    const played = playArray({ count: 10, tasks: "2-3" });
    played.feed({ kind: "cancel-tasks", order: { tasks: "3" } }, grants(grantOf(1)));
    played.ran();
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "failed", code: "TASKS_FAILED" });
  });

  it("kills what runs once it is cancelled, and not before", () => {
    const played = playArray({ count: 2, file: { run: { command: ["x"], grace: "1h" } } });
    played.feed(grants(grantOf(1)), { kind: "kill" });
    expect(played.gang("stop")).toEqual([]);
    played.feed({ kind: "cancel" });
    expect(played.gang("stop").map(({ command }) => command.order)).toMatchObject([
      { isKill: true, isCheckpointFirst: false },
    ]);
  });

  it("shows its counts, leases and first failures", () => {
    const played = playArray({ count: 10 });
    played.feed(grants(grantOf(1)));
    played.ran((task) => (task === 1 ? { end: "failed", exitCode: 2, message: "no disk" } : {}));
    const shown = arraySummary(played.view());
    expect(shown).toContain("1 failed");
    expect(shown).toContain("alpha/h1");
    expect(shown).toContain("task 1: no disk");
  });

  it("fails by the deadline with what has ended until then", () => {
    const played = playArray({ count: 9, file: { deadline: "10s" } });
    played.feed(grants(grantOf(1)));
    expect(played.wait()).toBe(true);
    expect(played.now()).toBe(START_MS + 10_000);
    expect(played.view().state).toBe("stopping");
    played.ran(() => ({ end: "stopped" }));
    played.stopped();
    played.deliver();
    expect(played.outcome()).toMatchObject({
      kind: "failed",
      code: "DEADLINE_EXCEEDED",
      details: { tasks: { cancelled: 9 } },
    });
  });
});

describe("the request of an array", () => {
  it("has the seniority of the submission without leases, and that of the moment with some", () => {
    const played = playArray({ count: 20, parallel: 8 });
    played.wait(5_000);
    played.feed({ kind: "hold" });
    played.told();
    played.feed({ kind: "release" });
    expect(played.told()).toMatchObject({ request: { slots: 8, submittedAtMs: START_MS } });
    played.feed(grants(grantOf(1, { seq: 3 })));
    played.feed({ kind: "cancel-tasks", order: { tasks: "5-19" } });
    expect(played.told()).toMatchObject({
      request: { slots: 0, submittedAtMs: START_MS + 5_000, requestedAtMs: START_MS + 5_000 },
    });
  });

  it("is one at a time, and follows what has changed meanwhile once the former is delivered", () => {
    const played = playArray({ count: 50 });
    played.feed({ kind: "hold" });
    played.feed({ kind: "release" });
    expect(played.open("tell")).toHaveLength(1);
    expect(played.told()).toMatchObject({ request: { seq: 2, slots: 0 } });
    expect(played.told()).toMatchObject({ request: { seq: 3, slots: 50 } });
    expect(played.open("tell")).toEqual([]);
  });

  it("pauses longer each time where there is no fleet, and stops pausing when the job is cancelled", () => {
    const played = playArray({ entry: { entered: NO_FLEET } });
    expect(played.view().pending?.code).toBe("NoFleet");
    played.wait();
    expect(played.now()).toBe(START_MS + 5_000);
    expect(played.told(NO_FLEET)).toMatchObject({ request: { seq: 2, slots: 10 } });
    played.wait();
    expect(played.now()).toBe(START_MS + 15_000);
    played.told(NO_FLEET);
    played.feed({ kind: "cancel" });
    expect(played.told()).toMatchObject({ kind: "end", seq: 3 });
    expect(played.outcome()).toEqual({ kind: "cancelled" });
  });

  it("shows the reason to wait until a grant comes, and asks refusing hosts again where no other is left", () => {
    const played = playArray({ count: 10, parallel: 4 });
    played.feed(grants(grantOf(1)));
    const cause = { code: "HOST_REFUSED", message: "broken disk", atMs: START_MS } as const;
    played.notRun({ kind: "failed", means: "never started", cause });
    played.wait();
    const asked = played.deliver().at(-1);
    expect(asked).toMatchObject({ request: { seq: 2, slots: 4, avoidHosts: ["alpha/h1"] } });
    const reason = { code: "NoMatchingFlavor", message: "no host", numbers: {}, holders: [] };
    played.feed({ kind: "pending", note: { seq: 2, reason: { ...reason, wakeOn: [] } } });
    const again = played.deliver().at(-1);
    expect(again).toMatchObject({ kind: "request", request: { seq: 3, slots: 4 } });
    expect(again).not.toHaveProperty("request.avoidHosts");
  });

  it("asks refusing hosts again after ten minutes where too few others answer", () => {
    const played = playArray({ count: 10, parallel: 4 });
    played.feed(grants(grantOf(1)));
    const cause = { code: "HOST_REFUSED", message: "broken disk", atMs: START_MS } as const;
    played.notRun({ kind: "failed", means: "never started", cause });
    played.wait();
    expect(played.deliver().at(-1)).toMatchObject({
      request: { seq: 2, avoidHosts: ["alpha/h1"] },
    });
    const reason = { code: "WaitingForHosts", message: "no host", numbers: {}, holders: [] };
    played.feed({ kind: "pending", note: { seq: 2, reason: { ...reason, wakeOn: [] } } });
    played.wait();
    expect(played.now()).toBe(START_MS + REFUSAL_REST_MS);
    const again = played.deliver().at(-1);
    expect(again).toMatchObject({ kind: "request", request: { seq: 3, slots: 4 } });
    expect(again).not.toHaveProperty("request.avoidHosts");
  });

  it("that is ending asks no host again, and has no clock for it", () => {
    const played = playArray({ count: 10, parallel: 4 });
    played.feed(grants(grantOf(1), grantOf(2)));
    const cause = { code: "HOST_REFUSED", message: "broken disk", atMs: START_MS } as const;
    played.notRun({ kind: "failed", means: "never started", cause });
    played.wait();
    played.deliver();
    const reason = { code: "WaitingForHosts", message: "no host", numbers: {}, holders: [] };
    played.feed({ kind: "pending", note: { seq: 2, reason: { ...reason, wakeOn: [] } } });
    played.feed({ kind: "cancel" });
    played.wait();
    expect(played.now()).toBeLessThan(START_MS + REFUSAL_REST_MS);
  });

  it("after a lost ledger asserts its leases one by one, then asks anew", () => {
    const played = playArray({ count: 100, parallel: 12 });
    played.feed(grants(grantOf(1), grantOf(2)));
    played.feed({ kind: "assert" });
    expect(played.open("tell")).toHaveLength(1);
    expect(played.told()).toMatchObject({ kind: "assert", lease: { id: leaseNamed(1) } });
    expect(played.told()).toMatchObject({ kind: "assert", lease: { id: leaseNamed(2) } });
    expect(played.told()).toMatchObject({ kind: "request", request: { seq: 2, slots: 4 } });
    expect(played.open("tell")).toEqual([]);
  });

  it("gives a lease back only once its assertion has arrived, and asserts none that is gone", () => {
    const played = playArray({ count: 16, parallel: 8 });
    played.feed(grants(grantOf(1), grantOf(2)));
    played.feed({ kind: "assert" });
    played.feed(preemption(1), preemption(2));
    for (const _lease of [1, 2]) {
      played.ran(() => ({ end: "stopped" }));
      played.stopped();
    }
    const kinds = played.open("tell").map(({ entry }) => entry.kind);
    expect(kinds).toEqual(["assert", "end"]);
    expect(played.open("tell")[1]?.entry).toMatchObject({ lease: leaseNamed(2) });
    played.told();
    expect(played.deliver()).toMatchObject([
      { kind: "end", lease: leaseNamed(2) },
      { kind: "end", lease: leaseNamed(1) },
      { kind: "request", request: { seq: 2, slots: 8 } },
    ]);
  });

  it("of a run after a reset stops the leases of the former run when the fleet asks", () => {
    const played = playArray({ count: 4 });
    played.feed(grants(grantOf(1, { run: runId("former") })));
    expect(played.gang("run")).toHaveLength(1);
    played.feed({ kind: "assert" });
    expect(played.gang("stop")).toHaveLength(1);
    expect(played.entries().some(({ kind }) => kind === "assert")).toBe(false);
    played.ran(() => ({ end: "stopped" }));
    played.stopped();
    expect(played.view().array?.counts).toMatchObject({ waiting: 4, running: 0 });
  });
});

describe("tasks that did not complete", () => {
  it("start again after the pause of the retry rule, before those never started, until their attempts are used up", () => {
    const played = playArray({
      count: 6,
      parallel: 1,
      file: { retry: { attempts: 2, backoff: "3s" } },
    });
    played.feed(grants(grantOf(1, { slots: 1 })));
    const fail = (task: number) => (task === 0 ? { end: "failed" as const, exitCode: 1 } : {});
    played.ran(fail);
    expect(played.batches()).toEqual([
      [0, 1, 2],
      [3, 4, 5],
    ]);
    expect(played.view().array?.counts.waiting).toBe(1);
    played.ran();
    played.deliver();
    expect(played.wait()).toBe(true);
    expect(played.now()).toBe(START_MS + 3_000);
    played.deliver();
    played.feed(grants(grantOf(2, { slots: 1, seq: played.array().requests.seq })));
    played.ran(fail);
    played.deliver();
    expect(played.outcome()).toMatchObject({
      kind: "failed",
      code: "TASKS_FAILED",
      details: { tasks: { completed: 5, failed: 1 }, failedTasks: [{ task: 0, exitCode: 1 }] },
    });
  });

  it("wait longer each time in a row that hosts are lost, and fail after ten losses", () => {
    const played = playArray({ count: 1 });
    const pausesMs: number[] = [];
    for (let lease = 1; played.outcome() === undefined; lease += 1) {
      played.feed(grants(grantOf(lease, { seq: played.array().requests.seq, slots: 1 })));
      const fromMs = played.now();
      played.feed({
        kind: "fenced",
        loss: { lease: leaseNamed(lease), hosts: [`alpha/h${lease}`] },
      });
      played.deliver();
      if (played.wait()) pausesMs.push(played.now() - fromMs);
      played.deliver();
    }
    expect(pausesMs).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60].map((seconds) => seconds * 1_000));
    expect(played.outcome()).toMatchObject({ code: "TASKS_FAILED", details: { attempts: 1 } });
  });

  it("on a silent host are asked for again there, and name the host where it never confirms its end", () => {
    const played = playArray({ count: 4 });
    played.feed(grants(grantOf(1)));
    const cause = { code: "HOST_LOST", message: "silent", atMs: START_MS } as const;
    played.notRun({ kind: "failed", means: "silent", cause });
    played.wait();
    expect(played.now()).toBe(START_MS + 2_000);
    expect(played.gang("find-host")).toHaveLength(1);
    played.feed({ kind: "cancel" });
    const [find] = played.gang("find-host");
    if (find === undefined) throw new Error("no search");
    const { id, host } = find.command;
    played.answer(find, {
      kind: "gang",
      lease: find.lease,
      answer: { kind: "found", id, host, agent: null },
    });
    while (played.gang("stop").length + played.gang("find-host").length > 0) {
      const [order] = [...played.gang("stop"), ...played.gang("find-host")];
      if (order === undefined) break;
      const { kind, id: at } = order.command;
      const answer =
        kind === "stop"
          ? ({ kind: "stopped", id: at, host, outcome: { kind: "failed" } } as const)
          : ({ kind: "found", id: at, host, agent: null } as const);
      played.answer(order, { kind: "gang", lease: order.lease, answer });
    }
    expect(played.deliver()).toMatchObject([
      { lease: leaseNamed(1), unconfirmedHosts: ["alpha/h1"] },
      { kind: "end", unconfirmedHosts: ["alpha/h1"] },
    ]);
    expect(played.outcome()).toEqual({ kind: "cancelled" });
  });
});

describe("a lease of an array", () => {
  it("that is wanted for others is stopped and given back; its tasks wait again, uncharged", () => {
    const played = playArray({ count: 8 });
    played.feed(grants(grantOf(1, { slots: 8 })));
    played.feed(preemption(1));
    played.feed(preemption(1));
    expect(played.gang("stop")[0]?.command.order.reason).toBe("preempted for urgent");
    expect(played.view().array).toMatchObject({
      preemptions: 1,
      leases: [{ preemptedFor: OTHER }],
    });
    played.ran((task) => (task === 0 ? {} : { end: "stopped" }));
    played.stopped();
    expect(played.view().array?.counts).toMatchObject({ completed: 1, waiting: 7 });
    expect(played.deliver()).toMatchObject([
      { kind: "end", lease: leaseNamed(1) },
      { kind: "request", request: { slots: 7 } },
    ]);
  });

  it("that is wanted for others in the moment of its grant is given back unused", () => {
    const played = playArray();
    played.feed(grants(grantOf(1)), preemption(1));
    expect(played.gang("run")).toEqual([]);
    expect(played.entries()[0]).toMatchObject({ kind: "end", lease: leaseNamed(1) });
  });

  it("that is old asks between two batches whether others wait, and goes on only if none does", () => {
    for (const doWait of [true, false]) {
      const played = playArray({ count: 100, parallel: 1 });
      played.feed(grants(grantOf(1, { slots: 1 })));
      played.ran();
      expect(played.open("ask-others")).toEqual([]);
      played.wait(61_000);
      played.ran();
      const [asked] = played.open("ask-others");
      if (asked === undefined) throw new Error("not asked");
      const started = played.batches().length;
      played.answer(asked, { kind: "others-wait", id: asked.id, doWait });
      expect(played.batches()).toHaveLength(started + (doWait ? 0 : 1));
      expect(played.entries().some(({ kind }) => kind === "end")).toBe(doWait);
    }
  });
});

describe("orders to an array", () => {
  it("hold lets the batch end and gives the lease back; release asks again", () => {
    const played = playArray({ count: 100, parallel: 4 });
    played.feed(grants(grantOf(1)));
    played.feed({ kind: "hold" });
    expect(played.view().state).toBe("running");
    played.ran();
    expect(played.view().state).toBe("held");
    expect(played.deliver()).toMatchObject([{ kind: "end", lease: leaseNamed(1) }]);
    played.feed({ kind: "release" });
    expect(played.deliver()).toMatchObject([{ request: { seq: 2, slots: 4 } }]);
  });

  it("cancel ends waiting tasks at once and stops running ones on their hosts, for good", () => {
    const played = playArray({ count: 60, parallel: 4 });
    played.feed(grants(grantOf(1)));
    const order = { tasks: "2,50-59" };
    expect(cancelAnswer(played.array().tasks, order)).toEqual({
      done: 10,
      stopping: 1,
      skipped: 0,
    });
    played.feed({ kind: "cancel-tasks", order });
    const [stop] = played.open("stop-tasks");
    expect(stop?.order).toMatchObject({ batchSeq: 1, tasks: [2], reason: "cancelled" });
    expect(stop?.agent.orderQueue).toBe("orders.alpha/h1");
    played.ran((task) => (task === 2 ? { end: "stopped" } : {}));
    expect(played.view().array?.counts).toMatchObject({ cancelled: 11, completed: 7 });
    expect(cancelAnswer(played.array().tasks, { tasks: "0,2,8,50-59" })).toEqual({
      ...{ done: 1, stopping: 0, skipped: 12 },
      skippedTasks: "0,2,50-59",
    });
  });

  it("retry runs ended tasks again as if they had never been started", () => {
    const played = playArray({ count: 4 });
    played.feed({ kind: "cancel-tasks", order: { tasks: "1,3" } });
    const order = { tasks: "0-3" };
    expect(retryAnswer(played.array().tasks, order)).toEqual({
      ...{ done: 2, stopping: 0, skipped: 2 },
      skippedTasks: "0,2",
    });
    played.feed({ kind: "retry-tasks", order });
    played.feed(grants(grantOf(1)));
    while (played.gang("run").length > 0) played.ran();
    played.deliver();
    expect(played.outcome()?.kind).toBe("completed");
    expect(played.batches().flat().sort()).toEqual([0, 1, 2, 3]);
  });

  it("name at most 2,000 tasks in an answer, the lowest", () => {
    const played = playArray({ count: 100_000 });
    const answer = retryAnswer(played.array().tasks, { tasks: "0-99999:2" });
    expect(answer).toMatchObject({ done: 0, skipped: 50_000 });
    expect(answer.skippedTasks).toMatch(/^0,2,4,.*,3998$/);
    expect(answer.skippedTasks?.split(",")).toHaveLength(2_000);
  });

  it("are refused where they name no task, and once the array is ending", () => {
    const played = playArray({ count: 4 });
    expect(refuseTasks(played.array(), { tasks: "3" })).toBeUndefined();
    const again = { tasks: Array.from({ length: 100_000 }, () => "0-3").join(",") };
    for (const order of [{ tasks: "4" }, { tasks: "x" }, { tasks: 9 }, {}, null, again])
      expect(refuseTasks(played.array(), order)?.code).toBe("BAD_INPUT");
    played.feed({ kind: "cancel" });
    expect(refuseTasks(played.array(), { tasks: "3" })?.code).toBe("NOT_ALLOWED");
    expect(refuseEnding(played.array())?.code).toBe("NOT_ALLOWED");
  });

  it("change nothing where a signal is junk", () => {
    const played = playArray();
    const before = played.commands.length;
    for (const junk of [null, 7, "x", [null, {}], { lease: 3 }])
      played.feed(
        { kind: "grants", offers: junk },
        { kind: "pending", note: junk },
        { kind: "preempt", order: junk },
        { kind: "fenced", loss: junk },
      );
    expect(played.commands).toHaveLength(before);
  });
});
