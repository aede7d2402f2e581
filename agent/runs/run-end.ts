/**
 * @file Brings launches to their end: stops one that runs, and settles one that has ended.
 *
 * Stop: the checkpoint if asked (its own grace), TERM, the run's grace, KILL, until no process is left, daemons included. There is
 * no pause between a checkpoint and TERM: no process was told to end by then. Only one stop of a launch is ever under
 * way; a second one that wants no checkpoint ends the wait for it, and one that kills ends the grace.
 * Settle: every process that the ranks left behind is killed, then the report is written, once and for all.
 * Between the last process and the answer, or the report, runs the operator's epilogue (`health/lease-checks.ts`).
 */

import type { CheckpointMark, RunReport } from "../../protocol/agent-contract.ts";
import type { AgentHost } from "./agent-host.ts";
import { groupsOf, readContainer, type Container } from "../containment/container.ts";
import { readBandwidth } from "../folder/bandwidth-file.ts";
import { orderCheckpoint } from "./checkpoint-order.ts";
import { newestCheckpoint } from "../folder/checkpoints.ts";
import { rankDir, taskDir, type Claim, type StopNote } from "../folder/launch-files.ts";
import { readNcclPlugins } from "../folder/nccl-file.ts";
import { readSteps } from "../folder/steps-file.ts";
import { FINAL_KINDS, phaseOf, runKey, untilPhase } from "./local-run.ts";
import type { FinalPhase, LocalRun } from "./local-run.ts";
import { lastLines } from "../shim/log-reader.ts";
import { placesOf } from "./own-gpus.ts";
import { failure } from "../system/failures.ts";
import { endShim, killAll, removeGroups, terminate } from "./process-end.ts";
import { neverStarted, runReport, type Facts } from "./run-report.ts";
import type { Groups } from "../ports/groups.ts";
import { createJsonOnce, readJson, replaceJson } from "../folder/json-files.ts";
import { batchReport } from "./task-report.ts";
import { readTurns } from "../folder/slot-journal.ts";

export interface StopAsk {
  readonly reason: string;
  readonly isCheckpointFirst: boolean;
  /** Neither TERM nor a grace, also for a stop that is under way. */
  readonly isKill?: boolean;
  /** Between TERM and KILL, where the run's own grace is too long. */
  readonly graceMs?: number;
  /** The host's silence, when that is the cause; see `fence.ts`. */
  readonly cutOffMs?: number;
  /** A GPU of the host is broken; see `move-launches.ts`. */
  readonly isHostFault?: true;
}

/** A shim that has taken the claim starts its ranks within this time, on a busy machine too. */
const START_MS = 15_000;
/** How much of a failed rank's output goes into the report. */
const LAST_LINES_BYTES = 2_048;
const TASK_LINES_BYTES = 512;

/** Returns when no process of the launch runs or can start any more. */
export function stopRun(
  host: AgentHost,
  run: LocalRun,
  ask: StopAsk,
): Promise<{ readonly hadProcesses: boolean }> {
  if (!ask.isCheckpointFirst) run.hurry.abort();
  if (ask.isKill === true) run.kill.abort();
  run.stopping ??= stopOnce(host, run, ask).finally(() => {
    // A stop that failed, say for a full disk, may be tried again; one that succeeded only answers again.
    if (!isHalted(run)) run.stopping = undefined;
  });
  return run.stopping;
}

async function stopOnce(
  host: AgentHost,
  run: LocalRun,
  { reason, isCheckpointFirst, graceMs, cutOffMs, isHostFault }: StopAsk,
): Promise<{ hadProcesses: boolean }> {
  const { files, system } = run;
  const { files: disk, clock } = system;
  run.halt.abort();
  const first: StopNote = {
    reason,
    atMs: clock.nowMs(),
    ...(cutOffMs !== undefined && { cutOffMs }),
    ...(isHostFault !== undefined && { isHostFault }),
  };
  createJsonOnce(disk, files.stop, first);
  if (revoke(run, reason)) return { hadProcesses: false };
  await untilPhase(run, ["running", ...FINAL_KINDS], clock.deadline(START_MS));
  if (isCheckpointFirst && !run.hurry.signal.aborted) {
    await orderCheckpoint(run, {
      ...checkpointPlaceOf(host, run),
      signal: run.hurry.signal,
    });
  }
  const phase = phaseOf(run);
  let hadProcesses = false;
  if (phase.kind === "running" || phase.kind === "starting") {
    hadProcesses = true;
    const note = readJson<StopNote>(disk, files.stop) ?? first;
    const told: StopNote = { ...note, termAtMs: note.termAtMs ?? clock.nowMs() };
    replaceJson(disk, files.stop, told);
    const ownGraceMs = run.stored?.order.run.graceMs ?? 0;
    const leftMs = Math.min(ownGraceMs, graceMs ?? ownGraceMs);
    if (!run.kill.signal.aborted) await terminate(run, leftMs, run.kill.signal);
  }
  hadProcesses = (await killAll(run)) || hadProcesses;
  if ("shim" in phase) await endShim(system, phase.shim);
  await clearRun(host, run);
  return { hadProcesses };
}

const isHalted = (run: LocalRun): boolean => FINAL_KINDS.some((kind) => kind === phaseOf(run).kind);

/** Takes the claim so that no shim ever can. True when nothing was started, by this call or an earlier one. */
export function revoke(run: LocalRun, reason: string): boolean {
  const { files, system } = run;
  const claim: Claim = { kind: "revoked", reason, atMs: system.clock.nowMs() };
  return createJsonOnce(system.files, files.claim, claim) || phaseOf(run).kind === "revoked";
}

/** The end of a launch in a final phase: no process of it runs when this returns. */
export async function settleRun(
  host: AgentHost,
  run: LocalRun,
  phase: FinalPhase,
): Promise<RunReport> {
  const { files, stored, system } = run;
  const { files: disk } = system;
  // A stop may still grant a grace to processes that the ranks have left behind.
  await run.stopping?.catch(() => undefined);
  if (phase.kind !== "revoked") {
    await killAll(run);
    await clearRun(host, run);
  }
  const container = readContainer(disk, files);
  const memory = memoryOf(container, system.groups);
  const fault = await faultUnder(host, run, phase);
  const nowMs = system.clock.nowMs();
  const report =
    stored === undefined
      ? neverStarted(host.id, "it was never started here", nowMs)
      : reportOf(host, run, {
          order: stored.order,
          phase,
          stop: readJson<StopNote>(disk, files.stop),
          bootId: system.processes.bootId(),
          memory,
          fault,
          nowMs,
        });
  try {
    const isNew = createJsonOnce(disk, files.report, report);
    if (isNew && stored !== undefined) host.settled?.(stored.order, report);
  } catch {
    // A full disk: this answer still counts, and the files that it was made from give it again.
    return report;
  }
  // An agent that ends before this finds them without their launch at its start.
  void removeGroups(system, groupsOf(container));
  host.open.delete(runKey(run));
  return readJson<RunReport>(disk, files.report) ?? report;
}

/** Nothing of the launch runs. Throws HOST_LOST where this agent ends before the epilogue has: the next one runs it again. */
function clearRun(host: AgentHost, run: LocalRun): Promise<void> {
  run.clearing ??= runEpilogue(host, run);
  return run.clearing;
}

async function runEpilogue(host: AgentHost, run: LocalRun): Promise<void> {
  const { id, checkLease } = host;
  const { stored, leaseId } = run;
  if (checkLease === undefined || stored === undefined) return;
  const { order } = stored;
  const phase = phaseOf(run);
  const { kind } = await checkLease("epilogue", {
    order,
    gpus: placesOf(host, stored),
    ...("shim" in phase && { supervisor: phase.shim }),
  });
  if (kind === "called-off")
    throw failure(
      "HOST_LOST",
      `the agent of ${id} ends; the next one ends ${leaseId} there once its epilogue has run`,
    );
}

/** Of a launch that has completed nobody asks: every rank of it has ended with 0. */
async function faultUnder(
  host: AgentHost,
  { stored }: LocalRun,
  phase: FinalPhase,
): Promise<Facts["fault"]> {
  const { startedAtMs, ranks = [] } = ("status" in phase && phase.status) || {};
  const { findFault } = host;
  if (findFault === undefined || stored === undefined || startedAtMs === undefined)
    return undefined;
  const isGood =
    stored.order.taskBatch === undefined && ranks.every(({ end }) => end?.exitCode === 0);
  return isGood ? undefined : await findFault(placesOf(host, stored), startedAtMs);
}

/** Counted in the group, which stays until the report is written: whoever settles after a crash reads the same. */
function memoryOf(container: Container, groups: Groups): Facts["memory"] {
  const limit = "memory" in container ? container.memory : undefined;
  const use = limit && groups.memoryUse(limit.group);
  return use && { ...use, limitBytes: limit.bytes };
}

function reportOf(
  host: AgentHost,
  run: LocalRun,
  known: Pick<Facts, "order" | "phase" | "stop" | "bootId" | "memory" | "fault" | "nowMs">,
): RunReport {
  const { files, leaseId } = run;
  const { files: disk } = run.system;
  const { taskBatch, formerTokens, token } = known.order;
  const runs = formerTokens && [...formerTokens, token];
  if (taskBatch === undefined) {
    return runReport({
      ...known,
      checkpoint: checkpointLeft(host, run, runs),
      measured: readBandwidth(disk, files.dir),
      stepMs: readSteps(disk, files.dir),
      ncclPlugins: readNcclPlugins(disk, files.dir),
      lastLines: (rank) => lastLines(disk, rankDir(files.dir, rank), LAST_LINES_BYTES),
    });
  }
  const leaseDir = host.layout.leaseDir(leaseId);
  return batchReport({
    ...known,
    checkpoint: undefined,
    batch: taskBatch,
    turns: readTurns(disk, files.journal),
    lastLines: (task, rank) =>
      lastLines(disk, rankDir(taskDir(leaseDir, task), rank), TASK_LINES_BYTES),
  });
}

/** A folder that cannot be read keeps no run from its end. */
function checkpointLeft(
  host: AgentHost,
  run: LocalRun,
  runs: readonly number[] | undefined,
): CheckpointMark | undefined {
  try {
    const { checkpointDir, uid } = checkpointPlaceOf(host, run);
    return newestCheckpoint(run.system.files, checkpointDir, { runs, uid });
  } catch {
    return undefined;
  }
}

/** Where its checkpoints are, and whose they are where that is not the agent's user. */
export function checkpointPlaceOf(
  host: AgentHost,
  run: LocalRun,
): { readonly checkpointDir: string; readonly uid: number | undefined } {
  const order = run.stored?.order;
  return {
    checkpointDir: checkpointDirOf(host, run),
    uid: order === undefined ? undefined : host.jobUid?.(order),
  };
}

export function checkpointDirOf(host: AgentHost, { stored, leaseId }: LocalRun): string {
  if (stored === undefined) return host.layout.leaseDir(leaseId);
  return stored.order.run.checkpoint?.dir ?? host.layout.checkpointDir(stored.order.jobId);
}
