/**
 * @file The order that stops tasks of a batch: it is noted for the shim (`task-stop.ts`), then its end is awaited in the journal.
 *
 * It is done when each named task of the batch is over or skipped in the journal, or when the launch is over. A shim that has not
 * taken the claim yet reads the note before it starts a task.
 */

import { dirname } from "node:path";
import type { StopTasksOrder, StopTasksReport } from "../../protocol/agent-contract.ts";
import { findRun, type AgentHost } from "../runs/agent-host.ts";
import { failure } from "../system/failures.ts";
import { watchFolder } from "../folder/folder-watch.ts";
import { phaseOf, type LocalRun } from "../runs/local-run.ts";
import { settleRun } from "../runs/run-end.ts";
import { noteStops } from "../shim/task-stop.ts";
import { readTurns } from "../folder/slot-journal.ts";

/** Between two looks when no notification comes. */
const LOOK_MS = 250;

export async function stopTasks(
  host: AgentHost,
  order: StopTasksOrder,
  cancelled: AbortSignal,
): Promise<StopTasksReport> {
  const run = findRun(host, order, order.jobId);
  noteStops(run, order.tasks, { reason: order.reason, atMs: host.system.clock.nowMs() });
  if (!(await untilOver(host, run, { order, cancelled }))) {
    throw failure(
      "HOST_LOST",
      `the agent of ${host.id} ends before the tasks of ${order.leaseId} have; order the stop again`,
    );
  }
  const turns = readTurns(host.system.files, run.files.journal);
  return {
    host: host.id,
    stopped: order.tasks.filter((task) => turns.get(task)?.startedAtMs !== undefined),
  };
}

/** False when the signal came first. */
async function untilOver(
  host: AgentHost,
  run: LocalRun,
  { order, cancelled }: { readonly order: StopTasksOrder; readonly cancelled: AbortSignal },
): Promise<boolean> {
  const { files } = run;
  const named = new Set(run.stored?.order.taskBatch?.tasks ?? []);
  const wanted = order.tasks.filter((task) => named.has(task));
  const folder = watchFolder(host.system, dirname(files.journal));
  try {
    for (;;) {
      const phase = phaseOf(run);
      switch (phase.kind) {
        case "unclaimed":
        case "revoked":
        case "ended":
          return true;
        case "lost":
          // Its tasks may outlive their shim for a moment.
          await settleRun(host, run, phase);
          return true;
        case "starting":
        case "running": {
          const turns = readTurns(host.system.files, files.journal);
          if (wanted.every((task) => turns.get(task)?.isOver === true)) return true;
        }
      }
      if (cancelled.aborted) return false;
      await folder.changed(LOOK_MS, cancelled);
    }
  } finally {
    folder.close();
  }
}
