/** @file Leases and the requests they answer: who holds which GPUs under which fencing token. */

import type { HostId, JobId, LeaseId, RunId, TenantId, Token } from "./ids.ts";
import type { Constraints, Gang, JobClass, PreemptionRule } from "./job.ts";
import type { Ms } from "./units.ts";

/** Which request of which run of which job. A newer run supersedes, a higher `seq` supersedes within a run. */
export interface RequestKey {
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly seq: number;
}

/** What scheduling reads of a job, and nothing else; at most 8 KiB as JSON. */
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
  /** What the user says that a run lasts at most. */
  readonly timeLimitMs?: Ms;
  /** Hosts that refused to start this job before: not offered to it again. */
  readonly avoidHosts?: readonly HostId[];
  /**
   * Of a job array: how many gangs like this it would run at once; as many as fit are granted, in any number of leases, and the
   * request waits for the rest. 0 withdraws what waits and leaves the leases alone. Absent: one gang, whole or not at all.
   */
  readonly slots?: number;
  /** `DEFAULT_PREEMPTION` of its class when absent. */
  readonly preemption?: PreemptionRule;
  /** Present when the job writes checkpoints that it starts again from. */
  readonly checkpoint?: CheckpointTerms;
  /** Not placed within this time it asks another fleet; the fleet tells it when. Absent: it has nowhere else to go. */
  readonly patienceMs?: Ms;
}

/** What scheduling knows of a job's checkpoints. */
export interface CheckpointTerms {
  /** A checkpoint that is ordered may take this long. */
  readonly graceMs: Ms;
  /** The processes write one by themselves about this often. */
  readonly intervalMs?: Ms;
}

/** What the request of a lease asked for, as far as decisions about the running job need it. */
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

/** The job of a lease is to give up its GPUs: checkpoint, stop, release, and stand in line again. */
export interface Eviction {
  /** Who gets the GPUs; the lease's own job when it is stopped to go on with more of them. */
  readonly forJob: JobId;
  readonly atMs: number;
  /** The order has been delivered: it cannot be taken back any more. */
  readonly isSent?: true;
  /** It may go on with these: it stands in line for them alone, and they are reserved for it. */
  readonly keep?: readonly HostGpus[];
  /** GPU-seconds of work that are lost by it, as far as can be told beforehand. */
  readonly lostGpuSeconds: number;
}

/**
 * Some GPUs of a lease were set apart for a job that could not start yet. Whoever borrows them gives way, with a checkpoint, as soon as the
 * rest of that job's place is free: at once, however short it has run. The loan ends when they are set apart for nobody any more.
 */
export interface Loan {
  readonly gpus: readonly HostGpus[];
}

/** GPUs that nobody but one job may be granted, until they are free and it has got them, or it leaves. */
export interface Reservation {
  readonly jobId: JobId;
  readonly gpus: readonly HostGpus[];
  /** When they were first set apart for it; of `keep`: when its lease ended, once it has. */
  readonly sinceMs: number;
  /**
   * `preemption`: others are being evicted for it. `head`: it is first in line and waits for leases to end. `keep`: it gives up its
   * lease to go on with these, which are fewer (it was shrunk) or more (it grows). `bridge`: it runs on GPUs of the latency reserve, and
   * others are being evicted in its name to fill that up; nobody is granted these.
   */
  readonly kind: "preemption" | "head" | "keep" | "bridge";
  /** Of a head: it cannot start before, so jobs that end by then may be granted the GPUs. */
  readonly lendUntilMs?: number;
  /** GPU-seconds that others have lost for it so far. */
  readonly lostGpuSeconds?: number;
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
  /** Of a job array: how many gangs of it fit into these GPUs. One host, or one gang over several. */
  readonly slots?: number;
  /** Sorted by host id; rank order follows it. */
  readonly gpus: readonly HostGpus[];
  readonly grantedAtMs: number;
  /** When its request was made: tells which of two runs of one job is the newer. */
  readonly requestedAtMs: number;
  /**
   * `granted`: in the outbox. `held`: the job has the grant. `vacating`: its job is gone, but `vacatingHosts` have not yet
   * confirmed that nothing runs there; only those hosts' GPUs still count as taken.
   */
  readonly state: "granted" | "held" | "vacating";
  readonly vacatingHosts?: readonly HostId[];
  /** Hosts of a `granted` or `held` lease that confirmed before its end arrived; the end need not wait for them. */
  readonly vacatedHosts?: readonly HostId[];
  /** An agent runs it and the ledger had lost it: its job has yet to say that the lease is its own. */
  readonly isDoubted?: true;
  /** Absent for leases of former rules and such as an agent told of: nobody evicts those. */
  readonly terms?: LeaseTerms;
  readonly eviction?: Eviction;
  /** When its newest complete checkpoint was written. */
  readonly checkpointedAtMs?: number;
  /** GPU-seconds that others have lost so that this one could start, or because it did. */
  readonly causedLossGpuSeconds?: number;
  /** GPUs that others were told to free for the latency reserve because it runs: as many as it has at most. */
  readonly bridgedGpus?: number;
  readonly loan?: Loan;
}

/** What a lease is, whoever tells of it: without how far its ledger has got with it. */
export type LeaseFact = Omit<
  Lease,
  | "state"
  | "vacatingHosts"
  | "vacatedHosts"
  | "isDoubted"
  | "terms"
  | "eviction"
  | "checkpointedAtMs"
  | "causedLossGpuSeconds"
  | "bridgedGpus"
  | "loan"
>;

export const gpuCountOf = (gpus: readonly HostGpus[]): number =>
  gpus.reduce((sum, part) => sum + popCount(part.mask), 0);

/** Whether its gang is smaller than it asked for, and may grow. */
export const isShrunk = ({ terms, gpus }: Lease): boolean =>
  terms?.gang.mayGrow === true && gpuCountOf(gpus) < terms.gang.gpus;

/** Number of set bits of a 32-bit mask. */
export function popCount(mask: number): number {
  let count = 0;
  for (let rest = mask >>> 0; rest !== 0; rest &= rest - 1) count += 1;
  return count;
}
