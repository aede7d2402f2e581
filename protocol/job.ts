/** @file What a job is told, what it shows of itself and which lease it denies, and what it leaves when it ends. */

import type { HostPlugins } from "../domain/bandwidth/collective-evidence.ts";
import type { BandwidthNote } from "../domain/lease/bandwidth-note.ts";
import type { AgentAddress } from "../domain/lease/inbox-entry.ts";
import type { FailureCode, PendingCode } from "../domain/values/codes.ts";
import type { HostId, JobId, LeaseId } from "../domain/values/ids.ts";
import type { JobSpec } from "../domain/job/job.ts";
import type { HostGpus, Lease } from "../domain/lease/lease.ts";
import type { LaunchExtrasNote } from "../domain/lease/launch-extras.ts";
import type { PreemptionLimits } from "../domain/lease/preemption-limits.ts";
import type { Preempted } from "../domain/lease/preempted.ts";
import type { PendingReason } from "../domain/lease/pending.ts";
import type { Amendment, ChangedSetting } from "../domain/job/amendment.ts";
import type { RunCause } from "./agent-contract.ts";
import type { GivenUp, Moving, Pause } from "./job-orders.ts";
import type { PredecessorView } from "./predecessors.ts";

/** Second, optional argument of the job workflow. */
export interface JobOptions {
  /** Which fleet is asked; `default` when absent. */
  readonly fleet?: string;
}

export interface GrantedAgent {
  readonly host: HostId;
  readonly agent: AgentAddress;
  /** Without a heartbeat for this long the host is silent. */
  readonly silenceMs?: number;
}

/** The fleet's answer to a request. */
export interface Grant {
  readonly seq: number;
  readonly lease: Lease;
  readonly predictedGBs?: number;
  readonly bandwidth?: BandwidthNote;
  readonly reason: string;
  readonly agents: readonly GrantedAgent[];
  /** Signed by the fleet's worker: hosts start the job by it (`access/ticket.ts`). Absent from workers of former releases. */
  readonly ticket?: string;
}

/**
 * A lease's GPUs are wanted for another job, or for its own with more of them: checkpoint, stop, give it back, ask again. A job that
 * does not run on this lease any more has nothing to do.
 */
export interface PreemptOrder {
  readonly seq: number;
  readonly lease: LeaseId;
  readonly forJob: JobId;
  readonly reason: string;
  /** The job may continue with these GPUs: they are reserved for it. */
  readonly keep?: readonly HostGpus[];
  /** After so long the fleet takes the lease back by itself. */
  readonly graceMs: number;
  /** How often the fleet preempts one job, where its policy says so. */
  readonly limits?: PreemptionLimits;
}

/** Tells a waiting job why it waits. */
export interface WaitNote {
  readonly seq: number;
  readonly reason: PendingReason;
}

export type JobState =
  "pending" | "held" | "running" | "stopping" | "completed" | "failed" | "cancelled";

export interface JobView {
  readonly jobId: JobId;
  /** Where it waits, runs, or ran last. */
  readonly fleet: string;
  /** Of a job that several fleets may run: which, and why it has moved. */
  readonly cells?: CellsView;
  /** It leaves its fleet for another by order. */
  readonly moving?: Moving;
  readonly spec?: JobSpec;
  readonly state: JobState;
  /** Why it waits, as far as the job was told; the fleet's `explain` has the live numbers. */
  readonly pending?: PendingReason;
  readonly submittedAtMs: number;
  /** The jobs that it waits for or has waited for; absent where there are none. */
  readonly after?: readonly PredecessorView[];
  readonly attempts: readonly AttemptView[];
  /** It was granted, and no attempt has begun on it yet. */
  readonly grantedLease?: LeaseId;
  /** Of a job array; it has no attempts, its tasks have. */
  readonly array?: ArrayView;
  /** Who holds it, where that is known. */
  readonly pause?: Pause;
  /** How often its settings were changed, and the last changes; absent when never. */
  readonly amended?: { readonly count: number; readonly last: readonly Amendment[] };
  /** Signals from outside that said nothing and changed nothing; absent when none came. */
  readonly junkSignals?: number;
}

/** Whether an open job says that it neither runs on this lease nor is about to. An array that has begun denies nothing here: its view names tasks, and the audit asks it for its leases. */
export const doesDeny = (
  { array, attempts, grantedLease }: Pick<JobView, "array" | "attempts" | "grantedLease">,
  lease: LeaseId,
): boolean =>
  (array === undefined || array.isUnbegun === true) &&
  grantedLease !== lease &&
  !attempts.some(({ leaseId, endedAtMs }) => leaseId === lease && endedAtMs === undefined);

/** What an order to change a job has changed. */
export interface AmendAnswer {
  readonly state: JobState;
  /** Empty where everything was so before. */
  readonly changes: readonly ChangedSetting[];
  /** Of a job that runs: it goes on as it was started, but for its deadline. */
  readonly isForNextRun: boolean;
}

/** What an order to move a job begins: it asks at `to` once `from` holds nothing of it. */
export interface MoveAnswer {
  readonly state: JobState;
  readonly from: string;
  readonly to: string;
}

export interface AttemptView {
  readonly attempt: number;
  readonly leaseId: LeaseId;
  readonly requestedAtMs: number;
  readonly grantedAtMs: number;
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  readonly gpus: readonly (HostGpus & {
    readonly orderQueue: string;
    readonly ranks: readonly number[];
  })[];
  readonly predictedGBs?: number;
  readonly bandwidth?: BandwidthNote;
  /** What its processes measured, once that was reported. */
  readonly measuredGbs?: number;
  /** Typical time of a training step, likewise. */
  readonly stepMs?: number;
  /** What NCCL had loaded of the collectives plugin, on hosts that lack some of it, once it has ended. */
  readonly ncclPlugins?: readonly HostPlugins[];
  /** The most host memory that it used at once on any host, file cache included, once it has ended. */
  readonly peakMemoryBytes?: number;
  /** The newest complete one of the job that any of its hosts saw at the end. */
  readonly checkpoint?: string;
  readonly reason: string;
  readonly end?: "completed" | "failed" | "stopped";
  readonly cause?: RunCause & { readonly host: HostId };
  /** It is being stopped, or was, because its GPUs are wanted. */
  readonly preempted?: Preempted;
  /** It was ended by an order to suspend, to requeue or to move the job. */
  readonly givenUp?: GivenUp;
  /** What was made for it before its start, and what could not be. */
  readonly launchExtras?: readonly LaunchExtrasNote[];
}

/** Where a task of a job array stands; `running`: handed to a lease, and started there as soon as a slot is free. */
export const TASK_STATES = ["waiting", "running", "completed", "failed", "cancelled"] as const;

export type TaskState = (typeof TASK_STATES)[number];

export type TaskCounts = Readonly<Record<TaskState, number>>;

export interface TaskView {
  readonly task: number;
  readonly state: TaskState;
  /** Tries that have ended. */
  readonly attempts: number;
  /** Where it runs, or ran last. */
  readonly host?: HostId;
  readonly leaseId?: LeaseId;
  readonly orderQueue?: string;
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  readonly exitCode?: number;
  readonly signal?: string;
  /** Of a failed one: what happened, with its last lines. */
  readonly message?: string;
}

export interface ArrayView {
  /** It waits for other jobs, and has asked no fleet for anything. */
  readonly isUnbegun?: true;
  readonly count: number;
  readonly parallel: number;
  readonly counts: TaskCounts;
  /** Slots of its leases: tasks that really run at once, at most. */
  readonly slots: number;
  readonly leases: readonly {
    readonly leaseId: LeaseId;
    readonly slots: number;
    readonly gpus: readonly HostGpus[];
    readonly grantedAtMs: number;
    /** Tasks of its present batch. */
    readonly tasks: number;
    /** It is being given up for this job. */
    readonly preemptedFor?: JobId;
  }[];
  /** Leases that were given up for other jobs. */
  readonly preemptions?: number;
  readonly firstFailed: readonly TaskView[];
}

/** Why a job has changed its fleet: the reason why it waited in the former one, or somebody's order. */
export type MoveCode = PendingCode | "Ordered";

export interface CellMemo {
  readonly from: string;
  readonly to: string;
  readonly code: MoveCode;
}

/** Tasks from a number on, of one state if it is named. */
export interface TaskQuery {
  readonly from: number;
  readonly count: number;
  readonly state?: TaskState;
}

export interface TaskPage {
  readonly counts: TaskCounts;
  readonly tasks: readonly TaskView[];
}

export const MAX_TASK_PAGE = 1_000;

/** Tasks as in `3,7-9`. */
export interface TaskOrder {
  readonly tasks: string;
}

export interface TaskOrderAnswer {
  /** Of those named: done at once, still to be stopped on their hosts, and left alone because of where they stand. */
  readonly done: number;
  readonly stopping: number;
  readonly skipped: number;
  /** Those left alone, as in `3,7-9`: the lowest of them where all would be long. Absent from former releases. */
  readonly skippedTasks?: string;
}

export type ArrayMemo = TaskCounts & { readonly count: number };

/** The result of a job that completed. */
export interface JobResult {
  readonly jobId: JobId;
  readonly attempts: number;
  readonly gpus: number;
  readonly hosts: readonly HostId[];
  readonly queuedMs: number;
  readonly ranMs: number;
  readonly checkpoint?: string;
  /** Of a job array. */
  readonly tasks?: TaskCounts;
}

/** The single detail of the application failure that ends a failed job. */
export interface JobFailureDetails {
  readonly code: FailureCode;
  readonly attempts: number;
  readonly host?: HostId;
  readonly rank?: number;
  readonly exitCode?: number;
  readonly signal?: string;
  readonly lastLines?: string;
  /** Of a job array: how its tasks ended, and the first that failed. */
  readonly tasks?: TaskCounts;
  readonly failedTasks?: readonly Pick<
    TaskView,
    "task" | "host" | "exitCode" | "signal" | "message"
  >[];
}

export interface CellMove {
  readonly from: string;
  readonly to: string;
  readonly atMs: number;
  readonly code: MoveCode;
  /** In a sentence: why it was not placed there, or who has moved it. */
  readonly reason: string;
  /** Who has ordered it, in his or her own word; absent where the job moved by itself. */
  readonly by?: string;
}

/** What a job shows of its ring. */
export interface CellsView {
  readonly home: string;
  readonly ring: readonly string[];
  /** Counts from 1. */
  readonly round: number;
  readonly moved: number;
  /** The last ones. */
  readonly moves: readonly CellMove[];
}
