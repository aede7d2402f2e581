/**
 * @file The state of one simulated job, and the requests and ends that it sends to its fleet.
 *
 * Work is counted in GPU-milliseconds at the best spread. A gang of `g` GPUs does `g` times its relative throughput of work in a
 * millisecond. Progress is linear in the size, because batch and world size follow the gang.
 */

import {
  jobId,
  runId,
  tenantId,
  type JobId,
  type LeaseId,
  type RunId,
} from "../domain/values/ids.ts";
import { DEFAULT_PREEMPTION } from "../domain/job/job.ts";
import type { GangRequest } from "../domain/lease/lease.ts";
import { limitedRule, type PreemptionLimits } from "../domain/lease/preemption-limits.ts";
import { ms } from "../domain/values/units.ts";
import type { InboxEntry } from "../domain/lease/inbox-entry.ts";
import type { PhaseState } from "./accounts.ts";
import { GANG_TIMEOUT_MS, type WorkloadJob } from "./workload.ts";

export interface JobState {
  readonly job: WorkloadJob;
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly classGroup: number;
  readonly tenantGroup: number;
  readonly isInWindow: boolean;
  stage: "waiting" | "running" | "yielding" | "ended";
  seq: number;
  requestedAtMs: number;
  /** Work left at the start of the present run; a checkpoint holds the rest. */
  leftGpuMs: number;
  /** Why the next run starts, for the accounts; from a checkpoint unless `starting`. */
  nextStart: PhaseState;
  /** Grows whenever the job's next events change; events entered under an older version are void. */
  version: number;
  run?: Run;
  queuedMs: number;
  firstGrantAtMs?: number;
  endedAtMs?: number;
  grantedGpus: number;
  preemptions: number;
  /** How many of them were for other jobs. */
  gaveWay: number;
  failures: number;
}

/** The run of a job while it holds GPUs. */
export interface Run {
  readonly lease: LeaseId;
  readonly gpus: number;
  /** GPU-milliseconds of progress a millisecond. */
  readonly rate: number;
  readonly isDegraded: boolean;
  /** When it began, or will begin, to make progress. */
  readonly progressFromMs: number;
  phase: PhaseState;
}

export const newJob = (
  job: WorkloadJob,
  place: Pick<JobState, "classGroup" | "tenantGroup" | "isInWindow">,
): JobState => ({
  job,
  ...place,
  jobId: jobId(job.id),
  runId: runId(`run-${job.id}`),
  stage: "waiting",
  seq: 1,
  requestedAtMs: job.submittedAtMs,
  leftGpuMs: job.durationMs * job.gpus,
  nextStart: "starting",
  version: 0,
  queuedMs: 0,
  grantedGpus: 0,
  preemptions: 0,
  gaveWay: 0,
  failures: 0,
});

interface Terms {
  /** How long a checkpoint takes that is ordered. */
  readonly checkpointMs: number;
  /** How often one job is preempted; absent where the fleet's policy has no limits. */
  readonly limits?: PreemptionLimits;
}

export function requestOf(state: JobState, { checkpointMs, limits }: Terms): InboxEntry {
  const { job, jobId: id, runId: run, seq, requestedAtMs } = state;
  const preemption =
    limits === undefined || state.gaveWay === 0
      ? job.preemption
      : limitedRule(job.preemption ?? DEFAULT_PREEMPTION[job.class], state.gaveWay, limits);
  const minGpus = job.minGpus ?? job.gpus;
  const request: GangRequest = {
    jobId: id,
    runId: run,
    seq,
    name: job.class,
    tenant: tenantId(job.tenant),
    class: job.class,
    priority: job.priority ?? 0,
    gang: {
      gpus: job.gpus,
      min: minGpus,
      timeoutMs: ms(job.gangTimeoutMs ?? GANG_TIMEOUT_MS[job.class]),
      ...(job.shapes !== undefined && { shapes: job.shapes }),
      ...(job.mayGrow !== undefined && { mayGrow: job.mayGrow }),
    },
    constraints: { isSameHost: false, isSameFabric: false, ...job.constraints },
    submittedAtMs: job.submittedAtMs,
    requestedAtMs,
    ...(job.estimateMs !== undefined && {
      timeLimitMs: ms(Math.max(1, job.estimateMs * shareLeft(state))),
    }),
    ...(preemption !== undefined && { preemption }),
    ...(job.hasNoCheckpoint === undefined && {
      checkpoint: {
        graceMs: ms(Math.max(1, checkpointMs)),
        ...(job.checkpointIntervalMs !== undefined && {
          intervalMs: ms(job.checkpointIntervalMs),
        }),
      },
    }),
  };
  return { kind: "request", request };
}

export const endOf = ({ jobId: id, runId: run, seq }: JobState): InboxEntry => ({
  kind: "end",
  jobId: id,
  runId: run,
  seq,
  unconfirmedHosts: [],
});

const shareLeft = ({ job, leftGpuMs }: JobState): number => leftGpuMs / (job.durationMs * job.gpus);

/** Work that a run has done by now since it began to make progress. */
export const doneGpuMs = ({ rate, progressFromMs }: Run, nowMs: number): number =>
  Math.max(0, nowMs - progressFromMs) * rate;

/** The part of that work that no checkpoint holds; `intervalMs` is how often the job writes one by itself. */
export function unsavedGpuMs(run: Run, nowMs: number, intervalMs: number | undefined): number {
  if (intervalMs === undefined) return doneGpuMs(run, nowMs);
  return (Math.max(0, nowMs - run.progressFromMs) % intervalMs) * run.rate;
}
