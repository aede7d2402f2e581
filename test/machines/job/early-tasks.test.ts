/** @file Orders to tasks of an array that waits for other jobs: they count from then on, and no task more or less begins. */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { leaseId, token } from "../../../domain/values/ids.ts";
import { tasksOf } from "../../../machines/array/named-tasks.ts";
import { taskPage, type TaskTable } from "../../../machines/array/task-table.ts";
import { refuseEarlyTasks } from "../../../machines/job/early-tasks.ts";
import { jobView } from "../../../machines/job/job-view.ts";
import { EARLY_TASKS_RULES } from "../../../protocol/control-contract.ts";
import { doesDeny } from "../../../protocol/job.ts";
import { caseCount } from "../../support/case-count.ts";
import { grantOf, grants, playArray } from "../array/builders.ts";
import { playJob, type PlayedJob } from "./builders.ts";

const COUNT = 10;

const waitingArray = (more: object = {}, rules?: number): PlayedJob =>
  playJob({
    file: { gang: 1, after: [{ job: "a" }], array: { count: COUNT }, ...more },
    ...(rules !== undefined && { rules }),
  });

const order = (played: PlayedJob, kind: "cancel-tasks" | "retry-tasks", tasks: string): void =>
  played.feed({ kind, order: { tasks } });

const hear = (played: PlayedJob, state: string): void =>
  played.feed({ kind: "predecessor", note: { job: "a", state } });

/** What the array's own logic takes over. */
function tableOf(played: PlayedJob): TaskTable {
  const { tasks } = played.job();
  if (tasks === undefined) throw new Error("no task can be reached");
  return tasks;
}

describe("tasks of an array that waits for other jobs", () => {
  test.each([false, true])("that are cancelled never begin; held: %s", (hold) => {
    const played = waitingArray({ hold });
    expect(played.open("hear-task-orders")).toHaveLength(1);
    order(played, "cancel-tasks", "3-5,9");
    order(played, "retry-tasks", "9");
    expect(jobView(played.job())).toMatchObject({
      state: hold ? "held" : "pending",
      array: { isUnbegun: true, counts: { waiting: 7, cancelled: 3 }, slots: 0, leases: [] },
    });
    if (hold) played.feed({ kind: "release" });
    hear(played, "completed");
    expect(played.stage()).toBe("array");
    const array = playArray({ count: COUNT, entry: { tasks: tableOf(played) } });
    array.feed(grants(grantOf(1, { slots: COUNT })));
    array.ran();
    expect(array.batches().flat()).toEqual([0, 1, 2, 6, 7, 8, 9]);
  });

  test("that are all cancelled end it at once, with the jobs still to come", () => {
    const played = waitingArray({ hold: true });
    order(played, "cancel-tasks", `0-${String(COUNT - 1)}`);
    expect(played.stage()).toBe("array");
    const array = playArray({
      count: COUNT,
      entry: { tasks: tableOf(played), entered: { kind: "silent" }, isHeld: true },
    });
    expect(array.deliver()).toMatchObject([{ kind: "end" }]);
    expect(array.outcome()).toMatchObject({
      code: "TASKS_FAILED",
      details: { tasks: { waiting: 0, cancelled: COUNT } },
    });
  });

  test("that were not asked for are not counted as waiting", () => {
    const played = waitingArray({ array: { count: COUNT, tasks: "0-4" } });
    expect(jobView(played.job()).array?.counts).toMatchObject({ waiting: 5, cancelled: 5 });
    order(played, "cancel-tasks", "0-4");
    expect(played.stage()).toBe("array");
  });

  test.each([
    ["names no task of it", { tasks: "10" }, "BAD_INPUT", undefined],
    ["is no order", null, "BAD_INPUT", undefined],
    ["comes as it is being cancelled", { tasks: "1" }, "NOT_ALLOWED", "cancel"],
    ["comes as its tasks begin", { tasks: "1" }, "NOT_ALLOWED", "completed"],
  ] as const)("an order is refused that %s", (_, given, code, before) => {
    const played = waitingArray();
    if (before === "cancel") played.feed({ kind: "cancel" });
    if (before === "completed") hear(played, "completed");
    expect(refuseEarlyTasks(played.job(), given)?.code).toBe(code);
  });

  test("are out of reach under former rules, and of a job that is no array", () => {
    for (const played of [
      waitingArray({}, EARLY_TASKS_RULES - 1),
      playJob({ file: { after: [{ job: "a" }] } }),
    ]) {
      expect(played.open("hear-task-orders")).toEqual([]);
      order(played, "cancel-tasks", "0");
      expect(jobView(played.job())).not.toHaveProperty("array");
      expect(played.stage()).toBe("following");
    }
  });

  test("do not keep it from denying a lease: it has none before they begin", () => {
    const view = jobView(waitingArray().job());
    expect(doesDeny(view, leaseId(token(1)))).toBe(true);
    const begun = playArray({ count: COUNT }).view();
    expect(doesDeny(begun, leaseId(token(1)))).toBe(false);
  });

  test("whatever orders come, they are as if the array had begun and waited", () => {
    const first = fc.nat(COUNT - 1);
    const change = fc.record({
      kind: fc.constantFrom("cancel-tasks" as const, "retry-tasks" as const),
      tasks: fc.tuple(first, first).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
    });
    const law = fc.property(fc.array(change, { maxLength: 12 }), (changes) => {
      const played = waitingArray();
      const begun = playArray({ count: COUNT });
      for (const { kind, tasks } of changes) {
        if (played.stage() === "array") break;
        order(played, kind, tasks);
        begun.feed({ kind, order: { tasks } });
      }
      const shown = (table: TaskTable) => [
        table.available,
        table.counts,
        taskPage(table, { from: 0, count: COUNT }),
      ];
      expect(shown(tableOf(played))).toEqual(shown(begun.array().tasks));
      expect(tasksOf(tableOf(played), { tasks: "0-9" }).running).toEqual([]);
      expect(played.stage()).toBe(tableOf(played).counts.waiting === 0 ? "array" : "following");
    });
    fc.assert(law, { numRuns: caseCount(200) });
  });
});
