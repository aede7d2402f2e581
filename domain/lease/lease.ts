/** @file Leases and their requests: the GPUs that each job holds, and under which fencing token. */

import type { HostId, JobId, LeaseId, RunId, TenantId, Token } from "../values/ids.ts";
import type { GpuNeed } from "../job/job-resources.ts";
import type { Constraints, Gang, JobClass, PreemptionRule } from "../job/job.ts";
import type { Ms } from "../values/units.ts";

/** Identifies a request: job, run and sequence. A newer run supersedes older ones; within a run a higher `seq` does. */
export interface RequestKey {
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly seq: number;
}

/** The part of a job that scheduling reads; at most 8 KiB as JSON. */
export interface GangRequest extends RequestKey {
  readonly name: string;
  readonly tenant: TenantId;
  readonly class: JobClass;
  readonly priority: number;
  readonly gang: Gang;
  readonly constraints: Constraints;
  /** When the job was first submitted: its seniority, kept over retries and preemptions. */
  readonly submittedAtMs: number;
  /** When this request was made: gang timeout and patience count from here. */
  readonly requestedAtMs: number;
  /** The user's limit on a run's time. */
  readonly timeLimitMs?: Ms;
  /** Hosts that refused to start this job before: not offered to it again. */
  readonly avoidHosts?: readonly HostId[];
  /**
   * For a job array: the number of such gangs that it would run at once. As many as fit are granted, in any number of leases, and the
   * request waits for the rest. 0 withdraws the waiting part and leaves the leases alone. Absent: one gang, whole or not at all.
   */
  readonly slots?: number;
  /** `DEFAULT_PREEMPTION` of its class when absent. */
  readonly preemption?: PreemptionRule;
  /** Present when the job writes checkpoints and resumes from them. */
  readonly checkpoint?: CheckpointTerms;
  /** A job that is not placed within this time asks another fleet; the fleet notifies it. Absent: the job names no other fleet. */
  readonly patienceMs?: Ms;
  /** The place that the fleet promised to the lobby in which the job waited, and that the lobby gave to the job. */
  readonly credit?: number;
  /** How often the job was inside and gave way to one that waited outside; 0 when absent. */
  readonly round?: number;
}

/** The facts about a job's checkpoints that scheduling uses. */
export interface CheckpointTerms {
  /** A checkpoint that is ordered may take this long. */
  readonly graceMs: Ms;
  /** The processes write one by themselves about this often. */
  readonly intervalMs?: Ms;
}

/** The part of a lease's request that decisions about the running job need. */
export type LeaseTerms = Pick<
  GangRequest,
  | "priority"
  | "submittedAtMs"
  | "gang"
  | "constraints"
  | "timeLimitMs"
  | "preemption"
  | "checkpoint"
>;

/** The job of a lease gives up its GPUs: it checkpoints, stops, releases them, and queues again. */
export interface Eviction {
  /** The job that gets the GPUs; the lease's own job when it is stopped to resume with more of them. */
  readonly forJob: JobId;
  readonly atMs: number;
  /** The order has been delivered and can no longer be withdrawn. */
  readonly isSent?: true;
  /** The job may resume on these GPUs: they are reserved for it, and it queues for them alone. */
  readonly keep?: readonly HostGpus[];
  /** Estimated GPU-seconds of work that the eviction loses. */
  readonly lostGpuSeconds: number;
}

/**
 * Opportunistic backfill: some GPUs of the lease are reserved for a job that cannot start yet. The lease is evicted, with a checkpoint, as
 * soon as the other GPUs of that job's reservation are free, however short it has run. The terms end when no job reserves the GPUs any more.
 */
export interface OpportunisticTerms {
  readonly gpus: readonly HostGpus[];
}

/** GPUs that may be granted to one job only, until that job has got them or has left. */
export interface Reservation {
  readonly jobId: JobId;
  readonly gpus: readonly HostGpus[];
  /** When they were first reserved for the job; for `keep`: the end of the job's lease, once it has ended; for `replace`: from when on the job has to ask again. */
  readonly sinceMs: number;
  /**
   * `preemption`: other jobs are being evicted for the job. `backfill`: the job comes first in the queue and waits for leases to end.
   * `keep`: the job gives up its lease to resume on these GPUs, which are fewer (it was shrunk) or more (it grows). `headroom`: the job runs
   * on GPUs of the inference headroom, and other jobs are evicted in its name to refill it; these GPUs are granted to no job.
   * `replace`: the job has lost a host, and keeps its other GPUs until `untilMs` while a replacement is found.
   */
  readonly kind: "preemption" | "backfill" | "keep" | "headroom" | "replace";
  /** For `backfill`: the job cannot start earlier, so jobs that end by then may be granted the GPUs. */
  readonly usableUntilMs?: number;
  /** For `replace`, always: when it ends at the latest. */
  readonly untilMs?: number;
  /** GPU-seconds that other jobs have lost for it so far. */
  readonly lostGpuSeconds?: number;
}

/** A run of a job of which nothing more will be heard. */
export interface ClosedRun {
  readonly jobId: JobId;
  readonly runId: RunId;
  /** The job was reset: it is open under another run, which asks for itself. */
  readonly isReset?: true;
}

/** GPUs of one host as a bit mask: bit i set = GPU i. */
export interface HostGpus {
  readonly host: HostId;
  readonly mask: number;
}

export interface Lease {
  readonly id: LeaseId;
  readonly token: Token;
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly seq: number;
  readonly class: JobClass;
  readonly tenant: TenantId;
  /** For a job array: the number of its gangs that fit into these GPUs. One host, or one gang over several. */
  readonly slots?: number;
  /** Sorted by host id; rank order follows it, unless a plan begins on another host. */
  readonly gpus: readonly HostGpus[];
  /**
   * What each GPU takes of its host, where the ledger counts it and the job says more or less than the share. Only where the terms are not at
   * hand: in grants, and in leases that agents and jobs report.
   */
  readonly resources?: GpuNeed;
  readonly grantedAtMs: number;
  /** When its request was made; decides which of two runs of one job is newer. */
  readonly requestedAtMs: number;
  /**
   * `granted`: in the outbox. `held`: the job has the grant. `vacating`: its job is gone, but `vacatingHosts` have not yet
   * confirmed that nothing runs there; only those hosts' GPUs still count as taken.
   */
  readonly state: "granted" | "held" | "vacating";
  readonly vacatingHosts?: readonly HostId[];
  /** Hosts of a `granted` or `held` lease that confirmed before its end arrived; the end need not wait for them. */
  readonly vacatedHosts?: readonly HostId[];
  /** An agent runs it and the ledger had lost it; its job has not confirmed the lease yet. */
  readonly isUnconfirmed?: true;
  /** Absent for leases of former rules and for leases reported by an agent; these are never evicted. */
  readonly terms?: LeaseTerms;
  readonly eviction?: Eviction;
  /** When its newest complete checkpoint was written. */
  readonly checkpointedAtMs?: number;
  /** GPU-seconds that other jobs have lost so that this one could start, or because it did. */
  readonly causedLossGpuSeconds?: number;
  /** GPUs that other jobs were ordered to free for the inference headroom because this lease runs; at most its own count. */
  readonly headroomGpus?: number;
  readonly opportunistic?: OpportunisticTerms;
}

/** The facts of a lease that job, agent and fleet share, without the ledger's progress with it. */
export type LeaseFact = Omit<
  Lease,
  | "state"
  | "vacatingHosts"
  | "vacatedHosts"
  | "isUnconfirmed"
  | "terms"
  | "eviction"
  | "checkpointedAtMs"
  | "causedLossGpuSeconds"
  | "headroomGpus"
  | "opportunistic"
>;

export function gpuCountOf(gpus: readonly HostGpus[]): number {
  let count = 0;
  for (const { mask } of gpus) count += popCount(mask);
  return count;
}

/** Whether its gang is smaller than it asked for, and may grow. */
export const isShrunk = ({ terms, gpus }: Lease): boolean =>
  terms?.gang.mayGrow === true && gpuCountOf(gpus) < terms.gang.gpus;

/** Number of set bits of a 32-bit mask: sums of pairs, of fours, and of bytes, added up by a product. A cycle asks thousands of times. */
export function popCount(mask: number): number {
  const pairs = mask - ((mask >>> 1) & 0x55555555);
  const fours = (pairs & 0x33333333) + ((pairs >>> 2) & 0x33333333);
  return Math.imul((fours + (fours >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
