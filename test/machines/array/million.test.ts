/**
 * @file An array of a million tasks on simulated hosts: what its history costs, and that each task is still listed, found, cancelled and retried
 * alone.
 */

import { describe, expect, it } from "vitest";
import { tasksView } from "../../../machines/array/array-view.ts";
import { cancelAnswer, retryAnswer } from "../../../machines/array/named-tasks.ts";
import type { TaskEnd } from "../../../protocol/agent-contract.ts";
import { grantOf, grants, playArray, type PlayedArray } from "./builders.ts";

const COUNT = 1_000_000;
const LEASES = 8;
const SLOTS = 8;
/** Temporal ends a workflow whose history is larger. */
const HISTORY_BYTES = 50 * 2 ** 20;
/** Of an event without what is in it. */
const EVENT_BYTES = 250;

/** Events as the server writes them: three for an activity, three for the workflow task that each answer causes at most, one for the rest. */
function historyOf(
  { commands }: PlayedArray,
  answers: { readonly count: number; readonly bytes: number },
) {
  const scheduled = commands.filter(({ kind }) => kind === "gang" || kind === "tell");
  const events = 3 * scheduled.length + 3 * answers.count + (commands.length - scheduled.length);
  const bytes = commands.reduce((sum, command) => sum + JSON.stringify(command).length, 0);
  return { events, bytes: events * EVENT_BYTES + bytes + answers.bytes };
}

function playMillion(ends: (task: number) => Partial<TaskEnd>) {
  const played = playArray({ count: COUNT, parallel: LEASES * SLOTS });
  const answers = { count: 0, bytes: 0 };
  played.feed(
    grants(...Array.from({ length: LEASES }, (_, at) => grantOf(at + 1, { slots: SLOTS }))),
  );
  /** Runs `most` batches, each on the lease that has waited longest. */
  const run = (most: number): void => {
    for (let batch = 0; batch < most; batch += 1) {
      played.deliver();
      const [at] = played.gang("run");
      if (at === undefined) return;
      answers.count += 1;
      answers.bytes += JSON.stringify(played.reportOf(at, ends)).length;
      played.ran(ends, at);
    }
  };
  return { played, answers, run };
}

/** Every exit code differs from that of the task before it, and all but some fail with a long message. */
const differing = (task: number): Partial<TaskEnd> => ({
  end: task % 256 === 0 ? "completed" : "failed",
  exitCode: task % 256,
  endedAtMs: 1_000_000 + (task % 997),
  ...(task % 256 !== 0 && {
    message: `rank 0 of played[${task}]: ${"line of output ".repeat(30)}`,
  }),
});

describe("an array of 1,000,000 tasks on simulated hosts", () => {
  it("completes with at most 0.05 events a task, in one history", () => {
    const { played, answers, run } = playMillion(() => ({ exitCode: 0 }));
    run(Infinity);
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "completed" });
    expect(played.view().array?.counts).toMatchObject({ completed: COUNT, waiting: 0 });
    const { events, bytes } = historyOf(played, answers);
    expect(events / COUNT).toBeLessThanOrEqual(0.05);
    expect(events).toBeLessThan(51_200);
    expect(bytes).toBeLessThan(HISTORY_BYTES);
  });

  it("stays within the history where every exit code differs, and lists, finds, cancels and retries each task alone", () => {
    const { played, answers, run } = playMillion(differing);
    const one = (task: number) =>
      tasksView(played.array().tasks, { from: task, count: 1 }).tasks[0] ?? { state: undefined };
    run(500);
    const waiting = { tasks: "987654" };
    expect(one(987_654)).toMatchObject({ state: "waiting", attempts: 0 });
    expect(cancelAnswer(played.array().tasks, waiting)).toEqual({
      done: 1,
      stopping: 0,
      skipped: 0,
    });
    played.feed({ kind: "cancel-tasks", order: waiting });
    const running = { tasks: String(played.gang("run")[0]?.command.order.taskBatch?.tasks[3]) };
    expect(cancelAnswer(played.array().tasks, running)).toEqual({
      done: 0,
      stopping: 1,
      skipped: 0,
    });
    const again = { tasks: "255" };
    expect(one(255)).toMatchObject({ state: "failed", exitCode: 255, attempts: 1 });
    expect(retryAnswer(played.array().tasks, again)).toEqual({ done: 1, stopping: 0, skipped: 0 });
    played.feed({ kind: "retry-tasks", order: again });
    run(Infinity);
    played.deliver();

    expect(one(255)).toMatchObject({ state: "failed", exitCode: 255, attempts: 2 });
    expect(one(987_654)).toMatchObject({ state: "cancelled" });
    expect(played.outcome()).toMatchObject({ kind: "failed", code: "TASKS_FAILED" });
    for (const task of [0, 1, 123_456, 555_555, 999_999])
      expect(one(task)).toMatchObject({
        ...{ task, exitCode: task % 256, attempts: 1, endedAtMs: 1_000_000 + (task % 997) },
        ...{ host: expect.any(String), leaseId: expect.any(String) },
        ...{ orderQueue: expect.any(String) },
      });
    const completed = Math.ceil(COUNT / 256);
    expect(tasksView(played.array().tasks, { from: 0, count: 1, state: "failed" }).counts).toEqual({
      ...{ waiting: 0, running: 0, completed, cancelled: 1, failed: COUNT - completed - 1 },
    });
    const { events, bytes } = historyOf(played, answers);
    expect(events / COUNT).toBeLessThanOrEqual(0.05);
    expect(bytes).toBeLessThan(HISTORY_BYTES);
  });
});
