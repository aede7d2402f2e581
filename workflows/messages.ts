/**
 * @file The words between clients, jobs and the fleet: workflow names, task queues, signals, updates and queries.
 *
 * A client in any language submits with `start("job", taskQueue "orbweaver-jobs", [jobFile])`; nothing else is needed.
 */

import { defineQuery, defineSignal, defineUpdate } from "@temporalio/workflow";
import type { BandwidthNote } from "../domain/bandwidth-note.ts";
import type { FailureCode, PendingCode } from "../domain/codes.ts";
import type { HostId, JobId, LeaseId, Token } from "../domain/ids.ts";
import type { JobSpec } from "../domain/job.ts";
import type { FleetShape } from "../domain/fleet.ts";
import type { HostGpus, Lease } from "../domain/lease.ts";
import type { OutfitNote } from "../domain/outfit.ts";
import type { Preempted } from "../domain/preempted.ts";
import type { FleetAnswer, PendingReason } from "../domain/pending.ts";
import type { AgentAddress } from "../scheduling/ledger.ts";
import type { PackedLedger } from "../scheduling/ledger-codec.ts";
import type { CellsView } from "./cells.ts";
import type { GrantedAgent } from "../activities/control-contract.ts";
import type { LogChunk, LogQuery, PresenceTerms, RunCause } from "../activities/agent-contract.ts";

export * from "./collective-messages.ts";
export * from "./link-messages.ts";
export * from "./model-messages.ts";

export const JOB_TASK_QUEUE = "orbweaver-jobs";
export const FLEET_TASK_QUEUE = "orbweaver-fleet";
/** Begins the name under which a fleet's history is replayed to be looked into; see fleet-recorder.ts. */
export const RECORDER = "orbweaver-recorder";
export const JOB_WORKFLOW = "job";
export const FLEET_WORKFLOW = "fleet";
export const LOG_SESSION_WORKFLOW = "log-session";
/** Started on a task queue to wake its workers; see `client/waking.ts`. */
export const WAKE_WORKFLOW = "wake";
/** How a workflow refuses a question that came with news of no task; asked again, it is answered. See `activation-guard.ts`. */
export const UNTIMELY_NEWS =
  "events came without a workflow task that is still open; the run is read again from its history";
export const DEFAULT_FLEET = "default";
export const PRESENCE_WORKFLOW = "presence";
export const SWEEP_WORKFLOW = "sweep";
export const fleetWorkflowId = (fleet: string): string => `orbweaver-fleet-${fleet}`;
/** Goes along over continue-as-new, unlike a summary: by it commands find out whether they have the fleet's key. */
export const fleetMemo = (fleet: string): Record<string, string> => ({ fleet });

/** Second, optional argument of the job workflow. */
export interface JobOptions {
  /** Which fleet is asked; `default` when absent. */
  readonly fleet?: string;
}

/** One batch of inbox entries; unknown entries go to the dead letters, never to an error. */
export const inboxSignal = defineSignal<[readonly unknown[]]>("inbox");

/** The fleet's answer to a request. */
export interface Grant {
  readonly seq: number;
  readonly lease: Lease;
  readonly predictedGBs?: number;
  readonly bandwidth?: BandwidthNote;
  readonly reason: string;
  readonly agents: readonly GrantedAgent[];
}
export const grantSignal = defineSignal<[Grant]>("grant");
/** The grants of one cycle to one job array: several answers to one request. */
export const grantsSignal = defineSignal<[readonly Grant[]]>("grants");

/**
 * A lease's GPUs are wanted for another job, or for its own with more of them: checkpoint, stop, give it back, ask again. A job that
 * does not run on this lease any more has nothing to do.
 */
export interface PreemptOrder {
  readonly seq: number;
  readonly lease: LeaseId;
  readonly forJob: JobId;
  readonly reason: string;
  /** It may go on with these: they are set apart for it. */
  readonly keep?: readonly HostGpus[];
  /** After so long the fleet takes the lease back by itself. */
  readonly graceMs: number;
}
export const preemptSignal = defineSignal<[PreemptOrder]>("preempt");

/** Tells a waiting job why it waits. */
export interface WaitNote {
  readonly seq: number;
  readonly reason: PendingReason;
}
export const pendingSignal = defineSignal<[WaitNote]>("pending");

export const holdUpdate = defineUpdate<JobState, []>("hold");
export const releaseUpdate = defineUpdate<JobState, []>("release");

export type JobState =
  "pending" | "held" | "running" | "stopping" | "completed" | "failed" | "cancelled";

export interface JobView {
  readonly jobId: JobId;
  /** Where it waits, runs, or ran last. */
  readonly fleet: string;
  /** Of a job that several fleets may run: which, and why it has moved. */
  readonly cells?: CellsView;
  readonly spec?: JobSpec;
  readonly state: JobState;
  /** Why it waits, as far as the job was told; the fleet's `explain` has the live numbers. */
  readonly pending?: PendingReason;
  readonly submittedAtMs: number;
  readonly attempts: readonly AttemptView[];
  /** Of a job array; it has no attempts, its tasks have. */
  readonly array?: ArrayView;
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
  readonly reason: string;
  readonly end?: "completed" | "failed" | "stopped";
  readonly cause?: RunCause & { readonly host: HostId };
  /** It is being stopped, or was, because its GPUs are wanted. */
  readonly preempted?: Preempted;
  /** What was made for it before its start, and what could not be. */
  readonly outfit?: readonly OutfitNote[];
}
export const jobViewQuery = defineQuery<JobView>("job");

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

/** The memo in which a job that has moved to another fleet says so, so that a list need not ask it. */
export const CELL_MEMO = "orbweaverCell";
export interface CellMemo {
  readonly from: string;
  readonly to: string;
  readonly code: PendingCode;
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
export const tasksQuery = defineQuery<TaskPage, [TaskQuery]>("tasks");

/** Tasks as in `3,7-9`. */
export interface TaskOrder {
  readonly tasks: string;
}
export const cancelTasksUpdate = defineUpdate<TaskOrderAnswer, [TaskOrder]>("cancel-tasks");
/** Runs ended tasks again, as if they had never been tried. */
export const retryTasksUpdate = defineUpdate<TaskOrderAnswer, [TaskOrder]>("retry-tasks");
export interface TaskOrderAnswer {
  /** Of those named: done at once, still to be stopped on their hosts, and left alone because of where they stand. */
  readonly done: number;
  readonly stopping: number;
  readonly skipped: number;
}
/** The memo in which an array shows how far it is, so that a list need not ask every array. */
export const ARRAY_MEMO = "orbweaverArray";
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

/** The version of the fleet workflow's logic that new runs follow. 2: audits, fences, recovery. 3: what was refused is decided again. 4: patience. 5: own start estimates. */
export const FLEET_RULES = 5;

export interface FleetInput {
  readonly name: string;
  readonly ledger: PackedLedger;
  /** The version of the workflow's logic that this run follows; 1 when absent. See `FLEET_RULES`. */
  readonly rules?: number;
  /** Its ledger was lost: agents and jobs are asked what there is. */
  readonly isRecovering?: true;
  /** The agents' terms may have changed: they are to report again. */
  readonly isReportDue?: true;
  /** When agents and jobs are to be asked; carried over continue-as-new. */
  readonly recoverAtMs?: readonly number[];
  /** What waiting jobs were told last; carried over continue-as-new. */
  readonly told?: readonly (readonly [jobId: JobId, code: PendingCode, atMs: number])[];
}

export const drainUpdate = defineUpdate<
  readonly HostId[],
  [{ readonly hosts: readonly string[]; readonly reason: string }]
>("drain");
export const undrainUpdate = defineUpdate<
  readonly HostId[],
  [{ readonly hosts: readonly string[] }]
>("undrain");
/** Replaces the fleet's description; what runs goes on, over-use shows as such. */
export const configureUpdate = defineUpdate<void, [Pick<PackedLedger, "shape" | "detailsHash">]>(
  "configure",
);
export const ledgerQuery = defineQuery<PackedLedger>("ledger");
/** Reads the answer of `ledgerQuery`; a client needs nothing else of scheduling. */
export { unpackLedger } from "../scheduling/ledger-codec.ts";
export type { Ledger } from "../scheduling/ledger.ts";
export type { FleetAnswer } from "../domain/pending.ts";
export const explainQuery = defineQuery<FleetAnswer, [string]>("explain");
/** Of the clusters named: all their hosts, the links between them, no tenants. */
export const shapeQuery = defineQuery<FleetShape, [readonly string[]]>("shape");
export const hostQuery = defineQuery<AgentAddress | null, [string]>("host");

/** What an agent of the cluster and the fleet agree on about silence; null when the fleet has no such cluster. */
export const silenceTermsQuery = defineQuery<SilenceTerms | null, [string]>("silence-terms");
export type SilenceTerms = Pick<PresenceTerms, "silenceMs" | "fenceMs" | "onSilence">;
export const hasLeaseQuery = defineQuery<boolean, [LeaseId]>("has-lease");
/** Whether others than this job wait for GPUs that leases hold. */
export const othersWaitQuery = defineQuery<boolean, [JobId]>("others-wait");
/** An operator vouches that nothing runs on these hosts. */
export const fenceUpdate = defineUpdate<readonly HostId[], [{ readonly hosts: readonly string[] }]>(
  "fence",
);

/** Tells a job that nothing of this lease counts on these hosts any more: they were fenced, or the lease is another's. */
export const fencedSignal =
  defineSignal<[{ readonly lease: LeaseId; readonly hosts: readonly HostId[] }]>("fenced");
/** Asks a job to tell the fleet again what it waits for or holds: the fleet has lost its ledger, or doubts it. */
export const assertSignal = defineSignal("assert");

/** The presence of one cluster's hosts: attends their agents and tells the fleet of transitions. */
export interface PresenceInput {
  readonly fleet: string;
  readonly cluster: string;
  /** Carried over continue-as-new. */
  readonly agents?: readonly PresentAgent[];
}
export interface PresentAgent {
  readonly agent: AgentAddress;
  readonly hosts: readonly HostId[];
}
export const presenceWorkflowId = (fleet: string, cluster: string): string =>
  `orbweaver-presence-${fleet}-${cluster}`;
/** An agent is there, or has found out that nobody attends it. */
export const hereSignal = defineSignal<[PresentAgent]>("here");
/** An agent ends on purpose. */
export const goneSignal = defineSignal<[{ readonly epoch: string }]>("gone");
/** The fleet has lost its ledger, or its rules about silence have changed: every agent is to report again. */
export const reportAgainSignal = defineSignal("report-again");

/** Sees to it that nothing runs under a lease whose job is gone, host by host, and tells the fleet. */
export interface SweepInput {
  readonly fleet: string;
  readonly jobId: JobId;
  readonly lease: LeaseId;
  readonly token: Token;
  readonly hosts: readonly HostId[];
}
export const sweepWorkflowId = (fleet: string, lease: LeaseId): string =>
  `orbweaver-sweep-${fleet}-${lease}`;

/** A log session: a short-lived workflow that carries log reads to an agent's order queue. */
export interface LogSessionInput {
  /** The version of the workflow's logic that this run follows; 1 when absent. */
  readonly rules?: number;
  readonly fleet: string;
  readonly idleMs: number;
}
export const LOG_SESSION_RULES = 2;
export const readLogUpdate = defineUpdate<LogChunk, [LogQuery]>("read");
export const endLogSessionSignal = defineSignal("end");
