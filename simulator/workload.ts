/**
 * @file What is simulated: jobs with their arrivals, as a generator draws them or a trace reader maps them.
 *
 * Times are milliseconds from the workload's start. A job is what its user would have submitted, plus what only the simulator
 * knows: how long it really runs.
 */

import type { TenantRule } from "../domain/fleet/fleet.ts";
import type { Constraints, JobClass, PreemptionRule } from "../domain/job/job.ts";

export interface Workload {
  readonly name: string;
  /** By `submittedAtMs`, ties in the order in which they arrive. */
  readonly jobs: readonly WorkloadJob[];
  readonly tenants: readonly TenantRule[];
  /** What a reader of the figures must know: mappings, rows that were left out and why, parameters. One sentence each. */
  readonly notes: readonly string[];
}

export interface WorkloadJob {
  /** Unique in its workload; no white space. */
  readonly id: string;
  readonly submittedAtMs: number;
  /** Run time at full size on the best placement that its size allows; more than 0. */
  readonly durationMs: number;
  readonly gpus: number;
  /** The smallest gang that it takes after its gang timeout; `gpus` when absent. */
  readonly minGpus?: number;
  /** The acceptable sizes below `gpus`, largest first; every size from `minGpus` when absent. */
  readonly shapes?: readonly number[];
  readonly mayGrow?: true;
  readonly class: JobClass;
  readonly tenant: string;
  /** 0 when absent. */
  readonly priority?: number;
  /** `GANG_TIMEOUT_MS` of its class when absent. */
  readonly gangTimeoutMs?: number;
  /** What its user says that a run lasts at most; no limit is known when absent. Nothing is killed for it. */
  readonly estimateMs?: number;
  readonly constraints?: Partial<Constraints>;
  /** `DEFAULT_PREEMPTION` of its class when absent. */
  readonly preemption?: PreemptionRule;
  /** It writes checkpoints by itself this often; absent: only when ordered to, so a failure loses the whole run. */
  readonly checkpointIntervalMs?: number;
  /** It cannot write checkpoints, so every stop loses the whole run. */
  readonly hasNoCheckpoint?: true;
}

/** How long a job insists on its full size; interactive sessions are as impatient as inference. */
export const GANG_TIMEOUT_MS: Readonly<Record<JobClass, number>> = Object.freeze({
  inference: 5_000,
  interactive: 5_000,
  training: 30_000,
});

/** GPU-seconds that the jobs need, all together, at full size on their best placement. */
export const gpuSecondsOf = (jobs: readonly WorkloadJob[]): number =>
  jobs.reduce((sum, { gpus, durationMs }) => sum + (gpus * durationMs) / 1_000, 0);
