/**
 * @file Brings launches to their end: stops one that runs, and settles one that has ended.
 *
 * Stop: the checkpoint if asked (its own grace), TERM, the run's grace, KILL, until nothing is left, daemons included. There is
 * no pause between a checkpoint and TERM: nothing has told the processes to end by then. Only one stop of a launch is ever under
 * way; a second one that does not want a checkpoint takes the wait for it away.
 * Settle: whatever the ranks left behind is killed, then the report is written, once and for all.
 */

import type { RunReport } from "../agent-contract.ts";
import type { AgentHost } from "./agent-host.ts";
import { readBandwidth } from "./bandwidth-file.ts";
import { orderCheckpoint } from "./checkpoint-order.ts";
import { newestCheckpoint } from "./checkpoints.ts";
import { rankDir, taskDir, type Claim, type StopNote } from "./launch.ts";
import { FINAL_KINDS, phaseOf, runKey, untilPhase } from "./local-run.ts";
import type { FinalPhase, LocalRun } from "./local-run.ts";
import { lastLines } from "./log-reader.ts";
import { endShim, killAll, terminate } from "./process-end.ts";
import { bootId } from "./process-identity.ts";
import { neverStarted, runReport, type Facts } from "./run-report.ts";
import { createOnce, readFile, replaceFile } from "./state-files.ts";
import { batchReport } from "./task-report.ts";
import { readTurns } from "./turn-journal.ts";

export interface StopAsk {
  readonly reason: string;
  readonly isCheckpointFirst: boolean;
  /** Between TERM and KILL, where the run's own grace is too long. */
  readonly graceMs?: number;
  /** The host's silence, when that is what stops it; see `fence.ts`. */
  readonly cutOffMs?: number;
}

/** A shim that has taken the claim starts its ranks within this time, on a busy machine too. */
const START_MS = 15_000;
/** How much of a failed rank's output goes into the report. */
const LAST_LINES_BYTES = 2_048;
const TASK_LINES_BYTES = 512;

/** Returns when nothing of the launch runs and nothing of it can start any more. */
export function stopRun(
  host: AgentHost,
  run: LocalRun,
  ask: StopAsk,
): Promise<{ readonly hadProcesses: boolean }> {
  if (!ask.isCheckpointFirst) run.hurry.abort();
  run.stopping ??= stopOnce(host, run, ask).finally(() => {
    // A failed one, say for a full disk, may be tried again; one that held is only asked for its answer.
    if (!isHalted(run)) run.stopping = undefined;
  });
  return run.stopping;
}

async function stopOnce(
  host: AgentHost,
  run: LocalRun,
  { reason, isCheckpointFirst, graceMs, cutOffMs }: StopAsk,
): Promise<{ hadProcesses: boolean }> {
  const { files } = run;
  run.halt.abort();
  const first: StopNote = {
    reason,
    atMs: Date.now(),
    ...(cutOffMs !== undefined && { cutOffMs }),
  };
  createOnce(files.stop, first);
  if (revoke(run, reason)) return { hadProcesses: false };
  await untilPhase(files, ["running", ...FINAL_KINDS], AbortSignal.timeout(START_MS));
  if (isCheckpointFirst && !run.hurry.signal.aborted) {
    await orderCheckpoint(run, {
      checkpointDir: checkpointDirOf(host, run),
      signal: run.hurry.signal,
    });
  }
  const phase = phaseOf(files);
  let hadProcesses = false;
  if (phase.kind === "running" || phase.kind === "starting") {
    hadProcesses = true;
    const note = readFile<StopNote>(files.stop) ?? first;
    replaceFile(files.stop, { ...note, termAtMs: note.termAtMs ?? Date.now() } satisfies StopNote);
    const ownGraceMs = run.stored?.order.run.graceMs ?? 0;
    await terminate(run, Math.min(ownGraceMs, graceMs ?? ownGraceMs));
  }
  hadProcesses = (await killAll(run)) || hadProcesses;
  if ("shim" in phase) await endShim(phase.shim);
  return { hadProcesses };
}

const isHalted = ({ files }: LocalRun): boolean =>
  FINAL_KINDS.some((kind) => kind === phaseOf(files).kind);

/** Takes the claim so that no shim ever can. True when nothing was started, by this call or an earlier one. */
export function revoke({ files }: LocalRun, reason: string): boolean {
  const claim: Claim = { kind: "revoked", reason, atMs: Date.now() };
  return createOnce(files.claim, claim) || phaseOf(files).kind === "revoked";
}

/** The end of a launch in a final phase: nothing of it runs when this returns. */
export async function settleRun(
  host: AgentHost,
  run: LocalRun,
  phase: FinalPhase,
): Promise<RunReport> {
  const { files, stored } = run;
  // A stop may still grant a grace to what the ranks have left behind.
  await run.stopping?.catch(() => undefined);
  if (phase.kind !== "revoked") await killAll(run);
  const nowMs = Date.now();
  const report =
    stored === undefined
      ? neverStarted(host.id, "it was never started here", nowMs)
      : reportOf(host, run, {
          order: stored.order,
          phase,
          stop: readFile<StopNote>(files.stop),
          bootId: bootId(),
          nowMs,
        });
  try {
    createOnce(files.report, report);
  } catch {
    // A full disk: this answer still counts, and the files that it was made from give it again.
    return report;
  }
  host.open.delete(runKey(run));
  return readFile<RunReport>(files.report) ?? report;
}

function reportOf(
  host: AgentHost,
  run: LocalRun,
  known: Pick<Facts, "order" | "phase" | "stop" | "bootId" | "nowMs">,
): RunReport {
  const { files, leaseId } = run;
  const { taskBatch } = known.order;
  if (taskBatch === undefined) {
    return runReport({
      ...known,
      checkpoint: newestCheckpoint(checkpointDirOf(host, run)),
      measuredGbs: readBandwidth(files.dir),
      lastLines: (rank) => lastLines(rankDir(files.dir, rank), LAST_LINES_BYTES),
    });
  }
  const leaseDir = host.layout.leaseDir(leaseId);
  return batchReport({
    ...known,
    checkpoint: undefined,
    batch: taskBatch,
    turns: readTurns(files.journal),
    lastLines: (task, rank) => lastLines(rankDir(taskDir(leaseDir, task), rank), TASK_LINES_BYTES),
  });
}

export function checkpointDirOf(host: AgentHost, { stored, leaseId }: LocalRun): string {
  if (stored === undefined) return host.layout.leaseDir(leaseId);
  return stored.order.run.checkpoint?.dir ?? host.layout.checkpointDir(stored.order.jobId);
}
