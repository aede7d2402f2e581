/**
 * @file The order that stops tasks of a batch: noted for the shim (`task-stop.ts`), then waited for in its journal.
 *
 * It holds when each named task of the batch is over or skipped in the journal, or when the launch is: a shim that has not
 * taken the claim yet reads the note before it starts anything.
 */

import { dirname } from "node:path";
import type { StopTasksOrder, StopTasksReport } from "../agent-contract.ts";
import { findRun, type AgentHost } from "./agent-host.ts";
import { failure } from "./failures.ts";
import { watchFolder } from "./folder-watch.ts";
import { phaseOf, type LocalRun } from "./local-run.ts";
import { settleRun } from "./run-end.ts";
import { noteStops } from "./task-stop.ts";
import { readTurns } from "./turn-journal.ts";

/** Between two looks when no notification comes. */
const LOOK_MS = 250;

export async function stopTasks(
  host: AgentHost,
  order: StopTasksOrder,
  cancelled: AbortSignal,
): Promise<StopTasksReport> {
  const run = findRun(host, order, order.jobId);
  noteStops(run.files, order.tasks, { reason: order.reason, atMs: Date.now() });
  if (!(await untilOver(host, run, { order, cancelled }))) {
    throw failure(
      "HOST_LOST",
      `the agent of ${host.id} ends before the tasks of ${order.leaseId} have; order the stop again`,
    );
  }
  const turns = readTurns(run.files.journal);
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
  const folder = watchFolder(dirname(files.journal));
  try {
    for (;;) {
      const phase = phaseOf(files);
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
          const turns = readTurns(files.journal);
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
