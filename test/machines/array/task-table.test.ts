/** @file The tasks of an array: their queue, their counts, and what becomes of a batch. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TaskEnd } from "../../../protocol/agent-contract.ts";
import { hostId, leaseId, token } from "../../../domain/values/ids.ts";
import {
  settleBatch,
  type BatchEnd,
  type BatchSettlement,
} from "../../../machines/array/batch-settlement.ts";
import {
  changeTasks,
  endTask,
  joinQueue,
  returnTask,
  takeTasks,
  type TaskChanges,
} from "../../../machines/array/task-changes.ts";
import {
  openTable,
  stateOf,
  taskPage,
  type TaskTable,
} from "../../../machines/array/task-table.ts";

const PLACE = { host: hostId("c", "h"), leaseId: leaseId(token(1)) };

interface NamedTable {
  readonly table: () => TaskTable;
  readonly change: <Answer>(change: (changes: TaskChanges) => Answer) => Answer;
  readonly take: (most: number) => readonly number[];
  readonly settle: (
    batch: readonly number[],
    ends: readonly TaskEnd[],
    more?: Partial<BatchEnd>,
  ) => BatchSettlement;
}

/** A table under a name, with the changes that tests make. */
function tableOf(count: number): NamedTable {
  let table = openTable(count);
  const change: NamedTable["change"] = (of) => {
    const { tasks, answer } = changeTasks(table, of);
    table = tasks;
    return answer;
  };
  return {
    table: () => table,
    change,
    take: (most) => change((changes) => takeTasks(changes, most, PLACE)),
    settle: (batch, ends, more = {}) => {
      const of = { unwanted: new Set<number>(), attempts: 1, isGivenUp: false, ...more };
      const settled = settleBatch(table, batch, { end: { tasks: ends }, ...of });
      table = settled.tasks;
      return settled;
    },
  };
}

describe("the queue", () => {
  it("goes by number, and what comes back goes first", () => {
    const { table, change, take } = tableOf(5);
    expect(take(3)).toEqual([0, 1, 2]);
    change((changes) => returnTask(changes, 1, {}));
    expect(take(2)).toEqual([1, 3]);
    expect(table().available).toBe(1);
  });

  it("leaves out what was cancelled, and takes it in again when it is to run again", () => {
    const { table, change, take } = tableOf(4);
    change((changes) => {
      endTask(changes, 1, { state: "cancelled" });
      endTask(changes, 2, { state: "cancelled" });
      returnTask(changes, 2, {});
    });
    expect(table().available).toBe(3);
    expect(take(9)).toEqual([0, 2, 3]);
  });

  it("keeps a paused task out until it joins again, and out for good if it was cancelled meanwhile", () => {
    const { table, change, take } = tableOf(2);
    take(2);
    change((changes) => {
      returnTask(changes, 0, { isPaused: true });
      returnTask(changes, 1, { isPaused: true });
    });
    expect(table().available).toBe(0);
    change((changes) => {
      endTask(changes, 1, { state: "cancelled" });
      joinQueue(changes, 0);
      joinQueue(changes, 1);
    });
    expect(take(9)).toEqual([0]);
  });

  it("hands out what waits and nothing else, each once, whatever happens", () => {
    const steps = fc.array(fc.tuple(fc.nat(4), fc.nat(9)), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (moves) => {
        const { table, change, take } = tableOf(10);
        const states = Array<string>(10).fill("waiting");
        const paused = new Set<number>();
        for (const [what, task] of moves) {
          if (what === 0) {
            for (const taken of take(task)) {
              expect(states[taken]).toBe("waiting");
              expect(paused.has(taken)).toBe(false);
              states[taken] = "running";
            }
          } else if (what === 1 && states[task] === "running") {
            change((changes) => endTask(changes, task, { state: "completed" }));
            states[task] = "completed";
          } else if (what === 2 && states[task] === "waiting") {
            change((changes) => endTask(changes, task, { state: "cancelled" }));
            states[task] = "cancelled";
          } else if (what === 3 && states[task] !== "waiting") {
            const isPaused = states[task] === "running";
            change((changes) => returnTask(changes, task, { isPaused }));
            if (isPaused) paused.add(task);
            else paused.delete(task);
            states[task] = "waiting";
          } else if (what === 4) {
            change((changes) => joinQueue(changes, task));
            paused.delete(task);
          }
          const count = (state: string): number => states.filter((is) => is === state).length;
          expect(table().counts).toMatchObject({
            waiting: count("waiting"),
            running: count("running"),
            completed: count("completed"),
            cancelled: count("cancelled"),
          });
          const isNext = (is: string, at: number): boolean => is === "waiting" && !paused.has(at);
          expect(table().available).toBe(states.filter(isNext).length);
        }
      }),
    );
  });
});

describe("a table of 100,000 tasks", () => {
  it("stays as it was when another is made from it, and shares all chunks but the changed one", () => {
    const before = openTable(100_000);
    const { tasks: after } = changeTasks(before, (changes) => takeTasks(changes, 9, PLACE));
    expect(before.counts.running).toBe(0);
    expect(taskPage(before, { from: 0, count: 9, state: "running" })).toEqual([]);
    expect(after.counts.running).toBe(9);
    const copied = after.chunks.filter((chunk, at) => chunk !== before.chunks[at]);
    expect(copied).toHaveLength(1);
  });

  it("hands out tasks that all came back at once, in the order of their return", () => {
    const { change, take } = tableOf(100_000);
    take(100_000);
    change((changes) => {
      for (let task = 99_999; task >= 0; task -= 1) returnTask(changes, task, {});
    });
    expect(take(2)).toEqual([99_999, 99_998]);
    expect(take(100_000)).toHaveLength(99_998);
  });
});

describe("a batch that has ended", () => {
  const failedEnd = (task: number): TaskEnd => ({
    task,
    end: "failed",
    startedAtMs: 1,
    endedAtMs: 2,
    exitCode: 3,
    message: "why",
  });

  it.each<{ name: string; end: TaskEnd; more?: Partial<BatchEnd>; want: string }>([
    { name: "completed", end: { task: 0, end: "completed" }, want: "completed" },
    {
      name: "completed although it was not wanted any more",
      end: { task: 0, end: "completed" },
      more: { unwanted: new Set([0]) },
      want: "completed",
    },
    { name: "failed for good", end: failedEnd(0), want: "failed" },
    {
      name: "failed, to be tried again",
      end: failedEnd(0),
      more: { attempts: 2 },
      want: "waiting",
    },
    {
      name: "past its time limit, which another try does not cure",
      end: { task: 0, end: "failed", message: "longer than its time limit" },
      more: { attempts: 2 },
      want: "failed",
    },
    {
      name: "stopped because it was not wanted",
      end: { task: 0, end: "stopped" },
      more: { unwanted: new Set([0]) },
      want: "cancelled",
    },
    {
      name: "stopped by what happened to its host",
      end: { task: 0, end: "stopped" },
      want: "waiting",
    },
    { name: "never begun", end: { task: 0, end: "not-run" }, want: "waiting" },
  ])("leaves a task that $name $want", ({ end, more, want }) => {
    const { table, take, settle } = tableOf(1);
    settle(take(1), [end], more);
    expect(stateOf(table(), 0)).toBe(want);
  });

  it("fails a task whose hosts are lost again and again", () => {
    const { table, change, take, settle } = tableOf(1);
    let starts = 0;
    while (stateOf(table(), 0) === "waiting" && starts < 100) {
      const { lost } = settle(take(1), []);
      change((changes) => lost.forEach((task) => joinQueue(changes, task)));
      starts += 1;
    }
    expect(starts).toBe(10);
    expect(stateOf(table(), 0)).toBe("failed");
  });

  it("of a task over two hosts counts the worse report", () => {
    const { table, take, settle } = tableOf(1);
    settle(take(1), [{ task: 0, end: "stopped" }, failedEnd(0)]);
    expect(taskPage(table(), { from: 0, count: 9 })).toMatchObject([
      { task: 0, state: "failed", attempts: 1, exitCode: 3, message: "why", ...PLACE },
    ]);
  });
});
