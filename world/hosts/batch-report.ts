/** @file How the tasks of a batch ended, as `agent/runs/task-report.ts` has it. Pure. */

import type { RunReport, TaskEnd } from "../../protocol/agent-contract.ts";
import { packEnds } from "../../protocol/packed-ends.ts";
import type { Launch } from "./disk.ts";

/** Nothing of a launch that is no batch. */
export function batchEnds({
  order,
  turns,
}: Launch): Pick<RunReport, "tasks"> | Pick<RunReport, "packedTasks"> {
  const { taskBatch } = order;
  if (taskBatch === undefined) return {};
  const ends = taskBatch.tasks.map((task): TaskEnd => {
    const turn = turns.get(task);
    if (turn === undefined) return { task, end: "not-run" };
    const { startedAtMs, endedAtMs, end = "stopped" } = turn;
    return {
      task,
      end,
      ...(startedAtMs !== undefined && { startedAtMs }),
      ...(endedAtMs !== undefined && { endedAtMs }),
      ...(end === "completed" && { exitCode: 0 }),
      ...(end === "failed" && { exitCode: 1, message: "exit code 1" }),
    };
  });
  return taskBatch.mostTexts === undefined
    ? { tasks: ends }
    : { packedTasks: packEnds(ends, taskBatch.mostTexts) };
}
