/**
 * @file What a simulation answers: plain JSON, the same bytes for the same options.
 *
 * Definitions. *Wait*: request in the ledger → grant; each request counts, so a preempted job waits more than once; `firstWait` is the
 * first of a job alone, `queued` the sum over a job. All are of jobs that were submitted in the steady window.
 * *Utilisation*: GPU-seconds held whose progress was kept ÷ GPU-seconds in service, in the steady window: neither lost since the last
 * checkpoint, nor spent on a start, a checkpoint or a restart. What a reserve keeps free is in service. The placement of the
 * gang is counted separately: *spread loss* is what the same GPU-seconds would have achieved in addition at the best spread (a gang that
 * runs at two thirds of its best throughput loses a third), and *utilisation at the best spread* charges it (decision 21).
 * *Training lost*: preemption loss ÷ (preemption loss + GPU-seconds whose progress was kept) of the class training: the share by which the
 * same grants would have achieved more if preemption cost nothing. *Occupancy*: GPU-seconds held ÷ GPU-seconds in service.
 */

import type { JobClass } from "../domain/job/job.ts";
import type { IdleTime } from "./idle.ts";
import type { FailureRates, SimulationCosts } from "./options.ts";

export interface SimulationResult {
  readonly kind: "simulation";
  readonly version: 1;
  readonly policy: string;
  readonly seed: number;
  readonly costs: SimulationCosts;
  /** Infinite rates are null. */
  readonly failureRates: { readonly [Rate in keyof FailureRates]: number | null };
  readonly workload: {
    readonly name: string;
    readonly jobs: number;
    readonly gpuSeconds: number;
    /** GPU-seconds of the jobs ÷ (GPUs × time from the first to the last arrival). */
    readonly offeredLoad: number;
    readonly notes: readonly string[];
  };
  readonly fleet: { readonly gpus: number; readonly hosts: number; readonly sites: number };
  /** When the simulation ended. */
  readonly endedAtMs: number;
  readonly window: { readonly fromMs: number; readonly toMs: number };
  /** At the end, of all jobs. */
  readonly jobs: {
    readonly submitted: number;
    readonly ended: number;
    readonly running: number;
    readonly waiting: number;
  };
  readonly utilisation: number;
  /** The same less the spread loss. */
  readonly utilisationAtBestSpread: number;
  readonly occupancy: number;
  readonly trainingLost: number;
  /** In the steady window; `inService` is the sum of all others. */
  readonly gpuSeconds: GpuSeconds;
  /** GPU-seconds in the steady window, by what kept the GPUs free; `deciding`: what came free since the last cycle. */
  readonly idle: IdleTime & { readonly deciding: number };
  readonly classes: readonly GroupFigures[];
  readonly tenants: readonly GroupFigures[];
  readonly preemption: {
    /** Whole gangs that gave up their GPUs for others. */
    readonly evictions: number;
    /** Gangs that gave up a part. */
    readonly shrinks: number;
    /** Gangs that stopped to go on with more GPUs. */
    readonly growths: number;
    /** Opportunistic starts that were recalled; not among the evictions. */
    readonly recalls: number;
  };
  readonly degradation: {
    /** Grants of fewer GPUs than the gang asked for. */
    readonly grants: number;
    readonly heldGpuSeconds: number;
  };
  readonly failures: { readonly hosts: number; readonly jobs: number };
  readonly starved: {
    /** Null when no bound was given. */
    readonly boundMs: number | null;
    readonly jobs: number;
    /** Tenants with a starved job. */
    readonly tenants: number;
    readonly longestWaitMs: number;
  };
  readonly decisions: {
    readonly cycles: number;
    readonly grants: number;
    /** Plan items that the ledger refused. */
    readonly refusals: number;
    readonly candidates: number;
    /** Events that were folded into the ledger. */
    readonly events: number;
  };
  readonly samples: readonly Sample[];
  /** Only when it was asked for; in order of arrival. */
  readonly jobRows?: readonly JobRow[];
}

export interface GpuSeconds {
  readonly inService: number;
  /** Progress that was never lost, at the best spread. */
  readonly kept: number;
  /** What the same GPUs would have done in addition at the best spread; `kept` and this are all time whose progress stays. */
  readonly spreadLoss: number;
  /** Checkpoints that were ordered, restarts after them, and work since the last checkpoint where none could be ordered. */
  readonly preemptionLoss: number;
  /** Work and restarts that failures have cost. */
  readonly failureLoss: number;
  /** Starts of processes, the first time. */
  readonly starting: number;
  readonly idle: number;
}

/** A class or a tenant. */
export interface GroupFigures {
  readonly name: string;
  /** Submitted in the window. */
  readonly submitted: number;
  /** Of these, how many have ended. */
  readonly ended: number;
  readonly wait: Spread;
  readonly firstWait: Spread;
  readonly queued: Spread;
  /** From submission to the end. */
  readonly completion: Spread;
  readonly keptGpuSeconds: number;
  readonly heldGpuSeconds: number;
  /** Mean of what was due by weighted max-min over those that had demand, times the window. */
  readonly dueGpuSeconds: number;
  readonly preemptions: number;
}

/** Milliseconds. Of nothing, all are 0. */
export interface Spread {
  readonly count: number;
  readonly mean: number;
  readonly p50: number;
  readonly p90: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
  /** Points [milliseconds, share of values at most that], ascending: the distribution at 101 shares. */
  readonly cdf: readonly (readonly [ms: number, share: number])[];
}

/** The fleet at one moment. */
export interface Sample {
  readonly atMs: number;
  readonly gpusInService: number;
  readonly gpusHeld: Readonly<Record<JobClass, number>>;
  readonly waitingJobs: Readonly<Record<JobClass, number>>;
  readonly waitingGpus: Readonly<Record<JobClass, number>>;
  readonly dueGpus: Readonly<Record<JobClass, number>>;
  readonly freeGpus: number;
  /** Of the free GPUs, the share on hosts that are partly taken; 0 when none is free. */
  readonly fragmentation: number;
  /** Preemptions since the sample before. */
  readonly preemptions: number;
  /** As the result's, since the sample before; lost work is taken off when it is lost. */
  readonly utilisation: number;
}

export interface JobRow {
  readonly id: string;
  readonly class: JobClass;
  readonly tenant: string;
  readonly gpus: number;
  readonly submittedAtMs: number;
  readonly durationMs: number;
  /** Null: never granted. */
  readonly firstGrantAtMs: number | null;
  readonly endedAtMs: number | null;
  /** Time in the queue, all requests together. */
  readonly queuedMs: number;
  readonly preemptions: number;
  readonly failures: number;
  /** GPUs of its first grant. */
  readonly grantedGpus: number;
}
