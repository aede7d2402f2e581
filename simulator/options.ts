/** @file The options of a simulation: fleet, workload, policies, costs, failures, and over which part of the time it reports. */

import type { FleetShape } from "../domain/fleet/fleet.ts";
import type { Lease } from "../domain/lease/lease.ts";
import type { OpenScheduler } from "./scheduler.ts";
import type { Workload, WorkloadJob } from "./workload.ts";

export interface SimulationOptions {
  readonly fleet: FleetShape;
  readonly workload: Workload;
  /** Name of the policies, for the record. */
  readonly policy: string;
  readonly openScheduler: OpenScheduler;
  readonly seed: number;
  readonly costs?: Partial<SimulationCosts>;
  readonly failures?: Partial<FailureRates>;
  readonly window?: Partial<WindowRule>;
  /** Points of the curves over time; `DEFAULT_SAMPLES` when absent. */
  readonly samples?: number;
  /** A row for each job in the result. */
  readonly keepsJobs?: boolean;
  /** Stops this long after the last arrival even if jobs wait or run; absent: runs until no event is left. */
  readonly drainMs?: number;
  /** Jobs older than this count as starved; none do when absent. */
  readonly starvedAfterMs?: number;
  /** By the spread of the gang (decision 18) when absent. */
  readonly rateOf?: RateOf;
}

/** GPU-milliseconds of a job's progress a millisecond on this lease; all leases that are held then, it included. */
export type RateOf = (job: WorkloadJob, lease: Lease, held: Iterable<Lease>) => number;

/** How long each step takes in the real world, in milliseconds. */
export interface SimulationCosts {
  /** From the start of a cycle until its plan is in the ledger. */
  readonly decisionMs: number;
  /** From the start of one cycle to the start of the next, at least. */
  readonly cycleIntervalMs: number;
  /** From a grant until the job's processes run; also from an order to give up GPUs until it reaches the job. */
  readonly deliveryMs: number;
  /** From the start of a job's processes until it makes progress, the first time. */
  readonly startMs: number;
  /** A preempted job makes no progress for this long, while it writes a checkpoint and stops. */
  readonly checkpointMs: number;
  /** As `startMs`, for a job that resumes from a checkpoint. */
  readonly restartMs: number;
}

export const DEFAULT_COSTS: SimulationCosts = Object.freeze({
  /** Somewhat above the measured p99 of one cycle at 1,798 GPUs; `bench queue` charges what it measures. */
  decisionMs: 5,
  cycleIntervalMs: 5,
  deliveryMs: 0,
  startMs: 0,
  /** The paper's two seconds: checkpoint, save state, release. */
  checkpointMs: 2_000,
  restartMs: 0,
});

export interface FailureRates {
  /** Mean time between two failures of one host; infinite: hosts never fail. */
  readonly hostMtbfMs: number;
  /** A failed host comes back after this. */
  readonly repairMs: number;
  /** Mean GPU-time between two failures of jobs by their own fault. */
  readonly jobMtbfGpuMs: number;
}

export const NO_FAILURES: FailureRates = Object.freeze({
  hostMtbfMs: Infinity,
  repairMs: 3_600_000,
  jobMtbfGpuMs: Infinity,
});

/** The steady window, as shares of the time from the first to the last arrival. */
export interface WindowRule {
  /** Before this the fleet fills. */
  readonly fromShare: number;
  readonly toShare: number;
}

export const DEFAULT_WINDOW: WindowRule = Object.freeze({ fromShare: 0.25, toShare: 1 });
export const DEFAULT_SAMPLES = 240;

/** How far a long run is. */
export interface SimulationProgress {
  readonly nowMs: number;
  readonly arrived: number;
  readonly ended: number;
  readonly jobs: number;
  readonly waiting: number;
}
