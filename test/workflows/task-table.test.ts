/** @file The tasks of an array: their line, their counts, and what becomes of a batch. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TaskEnd } from "../../activities/agent-contract.ts";
import { hostId, leaseId, token } from "../../domain/ids.ts";
import { settleBatch } from "../../workflows/batch-settlement.ts";
import { createTaskTable, type TaskTable } from "../../workflows/task-table.ts";

const PLACE = { host: hostId("c", "h"), leaseId: leaseId(token(1)) };
const ran = { tasks: 0, ms: 0 };

function settled(
  table: TaskTable,
  tasks: readonly number[],
  ends: readonly TaskEnd[],
  more: { unwanted?: Set<number>; attempts?: number; isGivenUp?: boolean } = {},
): ReturnType<typeof settleBatch> {
  const { unwanted = new Set(), attempts = 1, isGivenUp = false } = more;
  return settleBatch(table, tasks, { end: { tasks: ends }, unwanted, ran, attempts, isGivenUp });
}

describe("the line", () => {
  it("goes by number, and what comes back goes first", () => {
    const table = createTaskTable(5);
    expect(table.take(3, PLACE)).toEqual([0, 1, 2]);
    table.giveBack(1);
    expect(table.take(2, PLACE)).toEqual([1, 3]);
    expect(table.available()).toBe(1);
  });

  it("leaves out what was cancelled, and takes it in again when it is to be tried again", () => {
    const table = createTaskTable(4);
    table.end(1, "cancelled");
    table.end(2, "cancelled");
    table.giveBack(2);
    expect(table.available()).toBe(3);
    expect(table.take(9, PLACE)).toEqual([0, 2, 3]);
  });

  it("keeps a paused task out until it is resumed, and out for good if it was cancelled meanwhile", () => {
    const table = createTaskTable(2);
    table.take(2, PLACE);
    table.giveBack(0, { isPaused: true });
    table.giveBack(1, { isPaused: true });
    expect(table.available()).toBe(0);
    table.end(1, "cancelled");
    table.resume([0, 1]);
    expect(table.take(9, PLACE)).toEqual([0]);
  });

  it("hands out what waits and nothing else, each once, whatever happens", () => {
    const steps = fc.array(fc.tuple(fc.nat(4), fc.nat(9)), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (moves) => {
        const table = createTaskTable(10);
        const states = Array<string>(10).fill("waiting");
        const paused = new Set<number>();
        for (const [what, task] of moves) {
          if (what === 0) {
            for (const taken of table.take(task, PLACE)) {
              expect(states[taken]).toBe("waiting");
              expect(paused.has(taken)).toBe(false);
              states[taken] = "running";
            }
          } else if (what === 1 && states[task] === "running") {
            table.end(task, "completed");
            states[task] = "completed";
          } else if (what === 2 && states[task] === "waiting") {
            table.end(task, "cancelled");
            states[task] = "cancelled";
          } else if (what === 3 && states[task] !== "waiting") {
            const isPaused = states[task] === "running";
            table.giveBack(task, isPaused ? { isPaused: true } : {});
            if (isPaused) paused.add(task);
            else paused.delete(task);
            states[task] = "waiting";
          } else if (what === 4) {
            table.resume([task]);
            paused.delete(task);
          }
          const count = (state: string): number => states.filter((is) => is === state).length;
          expect(table.counts()).toMatchObject({
            waiting: count("waiting"),
            running: count("running"),
            completed: count("completed"),
            cancelled: count("cancelled"),
          });
          const isNext = (is: string, at: number): boolean => is === "waiting" && !paused.has(at);
          expect(table.available()).toBe(states.filter(isNext).length);
        }
      }),
    );
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

  it.each<{ name: string; end: TaskEnd; more?: Parameters<typeof settled>[3]; want: string }>([
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
    const table = createTaskTable(1);
    settled(table, table.take(1, PLACE), [end], more);
    expect(table.stateOf(0)).toBe(want);
  });

  it("fails a task whose hosts are lost again and again", () => {
    const table = createTaskTable(1);
    let tries = 0;
    while (table.stateOf(0) === "waiting" && tries < 100) {
      const { lost } = settled(table, table.take(1, PLACE), []);
      table.resume(lost);
      tries += 1;
    }
    expect(tries).toBe(10);
    expect(table.stateOf(0)).toBe("failed");
  });

  it("of a task over two hosts counts the worse word", () => {
    const table = createTaskTable(1);
    settled(table, table.take(1, PLACE), [{ task: 0, end: "stopped" }, failedEnd(0)]);
    expect(table.page({ from: 0, count: 9 })).toMatchObject([
      { task: 0, state: "failed", attempts: 1, exitCode: 3, message: "why", ...PLACE },
    ]);
  });
});
