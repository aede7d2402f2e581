/**
 * @file What the job workflow asks of a host's agent. Types only: workflows import this, agents implement it.
 *
 * `run` lives on the host's run queue for as long as the processes do. Everything else is an order: short, on a queue and
 * slots of its own, so that long runs never starve it. Every order is idempotent by (lease, token).
 */

import type { NcclPlugins } from "../domain/bandwidth/collective-evidence.ts";
import type { MessageProfile } from "../domain/bandwidth/message-profile.ts";
import type { FailureCode } from "../domain/values/codes.ts";
import type { HostId, JobId, LeaseId, Token } from "../domain/values/ids.ts";
import type { HostGpus, Lease, LeaseFact } from "../domain/lease/lease.ts";
import type { Dependency } from "../domain/job/dependency.ts";
import type { RunSpec } from "../domain/job/job.ts";
import type { LaunchExtras } from "../domain/lease/launch-extras.ts";
import type { AgentAddress } from "../domain/lease/inbox-entry.ts";

export interface RunActivities {
  /**
   * Two phases in one activity. Prepare: the token is checked and persisted, whatever a lower one still runs on these GPUs is
   * stopped and seen gone, and rank 0's host picks the port; said by heartbeat (`RunHeartbeat`). Commit: only when every host of
   * the gang says `prepared` for this token do the processes start. Then it lives until the last local process has ended.
   * A second attempt (the agent was restarted, the task was delivered twice) takes over what runs; it starts nothing twice.
   */
  run(order: RunOrder): Promise<RunReport>;
}

export interface OrderActivities {
  /** Ask the run to write a checkpoint now; returns when it is complete or its grace is over. */
  checkpoint(order: LeaseOrder): Promise<CheckpointReport>;
  /**
   * Checkpoint (if asked), grace, TERM, grace, KILL, until nothing is left, `setsid` grandchildren included. Also revokes the
   * token on this host, so that a `run` that arrives later starts nothing. Returns only when nothing runs.
   */
  stop(order: StopOrder): Promise<StopReport>;
  readLogs(query: LogQuery): Promise<LogChunk>;
  /** Of a batch of array tasks: those named that have not started never will, those that run are stopped. Returns when both hold. */
  stopTasks(order: StopTasksOrder): Promise<StopTasksReport>;
}

/** On the order queue, from the presence workflow of the host's cluster: one agent is attended by one activity. */
export interface PresenceActivities {
  /** Short. Notes the terms durably, and answers with what runs on the agent's hosts. */
  report(terms: PresenceTerms): Promise<AgentReport>;
  /**
   * Heartbeats every third of `silenceMs`, by calls whose success the agent sees; each success is its contact with the control
   * plane. `ended`: the agent ends on purpose. Cut off for `fenceMs`, the agent stops everything that it runs (`onSilence: fence`).
   */
  keepContact(terms: PresenceTerms): Promise<"ended">;
}

/** What an agent and its fleet agree on about silence. */
export interface PresenceTerms {
  readonly fleet: string;
  readonly epoch: string;
  /** No heartbeat for this long is silence. */
  readonly silenceMs: number;
  /** So long after the silence began the fleet grants the GPUs again; the agent has stopped everything by then. */
  readonly fenceMs: number;
  /** `hold`: run on, and nothing is granted again before the host answers. */
  readonly onSilence: "fence" | "hold";
}

export interface AgentReport {
  readonly agent: AgentAddress;
  readonly hosts: readonly HostId[];
  /** What runs, and what is about to: a lease that spans several of the hosts is named once for each. */
  readonly running: readonly { readonly host: HostId; readonly lease: LeaseFact }[];
  /** The highest token that any of the hosts has ever seen. */
  readonly highestToken: number;
}

export interface RunOrder {
  readonly jobId: JobId;
  readonly jobName: string;
  /** The Temporal workflow that the agents of the gang watch during the start. */
  readonly workflowId: string;
  readonly workflowRunId: string;
  readonly leaseId: LeaseId;
  readonly token: Token;
  /** The rest of the lease, for a fleet that has lost its ledger. */
  readonly holder: LeaseHolder;
  /** 1 for the first run of the job. */
  readonly attempt: number;
  /** This agent's part of the gang. */
  readonly host: HostId;
  /** The whole gang in rank order; `address` is what the others connect to. */
  readonly gang: readonly (HostGpus & { readonly address: string })[];
  readonly run: RunSpec;
  readonly model?: string;
  /** Of the full gang; a smaller one gets its share, see `domain/lease/granted-batch.ts`. */
  readonly batch?: number;
  /** The full gang, of which `gang` may be less; absent for a job array, whose tasks are never smaller. */
  readonly gpusRequested?: number;
  /** How long the whole gang may take to get prepared. */
  readonly prepareTimeoutMs: number;
  readonly timeLimitMs?: number;
  /** The jobs that it was to wait for: hosts read nothing in it but what its submitter has signed. */
  readonly after?: readonly Dependency[];
  readonly mayFollowFailure?: true;
  /** How much of the time limit suspended runs of the job have used. */
  readonly ranMs?: number;
  /** Of the job's runs before this one, oldest first, where they ran in several fleets: tokens of two fleets have no order of their own. */
  readonly formerTokens?: readonly Token[];
  /** Files and variables that were made for this run; see `domain/lease/launch-extras.ts`. */
  readonly launchExtras?: LaunchExtras;
  /** Present for a job array: the processes are those of its tasks, and `run.command` is started once a task (and GPU). */
  readonly taskBatch?: TaskBatch;
  /** Of the grant: the fleet's signed word that the job may start on the lease (`access/ticket.ts`). */
  readonly ticket?: string;
  /** The activity may fail with a `HostFault`: the job then has all hosts of the gang write its checkpoint, and stop. */
  readonly hearsOfFaults?: true;
}

/** The detail of a `HOST_LOST` that the host itself says of a launch which runs on: a GPU of it has broken. */
export interface HostFault {
  readonly faultAtMs: number;
}

export type LeaseHolder = Pick<
  Lease,
  "runId" | "seq" | "class" | "tenant" | "grantedAtMs" | "requestedAtMs" | "resources"
>;

/**
 * The tasks of a job array that one lease runs. Slot i has the GPUs i·gpusPerTask to (i+1)·gpusPerTask − 1 of this host's
 * part of the lease, counted in bit order; a free slot takes the next task. A task that spans hosts is alone in its batch.
 */
export interface TaskBatch {
  /** Counts the batches of this lease on this host, from 1: (lease, token, seq) names the run, one lease has many. */
  readonly seq: number;
  /** Indices, in the order in which they start. */
  readonly tasks: readonly number[];
  /** Tasks that run at a time. */
  readonly slots: number;
  readonly gpusPerTask: number;
  /** Tasks of the whole array. */
  readonly count: number;
  /** Where it is there, the report has the ends packed, and messages of so many tasks at most. */
  readonly mostTexts?: number;
}

/**
 * How a task ended. `not-run`: the batch was stopped, or lost, before its turn. `stopped` without a start: it was named by
 * `stopTasks` before its turn.
 */
export interface TaskEnd {
  readonly task: number;
  readonly end: "completed" | "failed" | "stopped" | "not-run";
  readonly startedAtMs?: number;
  readonly endedAtMs?: number;
  readonly exitCode?: number;
  readonly signal?: string;
  /** Of a failed one: what happened, with the last lines that it wrote, at most 512 bytes. */
  readonly message?: string;
}

/** A value, and how many in a row have it. */
export type ValueRun<Value> = readonly [Value, number];

/** The ends of a batch's tasks as columns, in its order; see packed-ends.ts. */
export interface PackedEnds {
  readonly ends: readonly ValueRun<TaskEnd["end"]>[];
  readonly exitCodes: readonly ValueRun<number | null>[];
  readonly signals: readonly ValueRun<string | null>[];
  /** Since the start before, since the epoch for the first; null for a task that never started. */
  readonly starts: readonly (number | null)[];
  /** From its start to its end; null for a task without one of them. */
  readonly ranMs: readonly (number | null)[];
  /** `at` counts in the batch. */
  readonly texts: readonly { readonly at: number; readonly message: string }[];
}

/** Heartbeat details of `run`. */
export interface RunHeartbeat {
  /** `pulling`: the host fetches the image, and is not prepared yet. */
  readonly phase: "pulling" | "prepared" | "running";
  readonly host: HostId;
  readonly token: Token;
  /** The port of rank 0; only its host says it. */
  readonly masterPort?: number;
  /** Which build of the collectives plugin this host has; absent where it has none, or where the job wants none. */
  readonly tuner?: string;
  /** Since when the local processes run. */
  readonly startedAtMs?: number;
  /** Collective bandwidth that the processes have measured, see `bandwidth-file.ts`. */
  readonly measuredGbs?: number;
  /** Typical time of a step so far, see `steps-file.ts`. */
  readonly stepMs?: number;
  /** What NCCL has loaded of the plugin here, see `nccl-file.ts`. */
  readonly ncclPlugins?: NcclPlugins;
  /** Of a served model, once it answers. */
  readonly served?: ServedFact;
  /** Of a batch: the tasks that run now, and how many have ended. */
  readonly tasks?: {
    readonly running: readonly number[];
    readonly ended: number;
    readonly failed: number;
  };
}

export interface ServedFact {
  readonly url: string;
  /** Its plan, in a line. */
  readonly line: string;
}

export interface RunReport {
  readonly host: HostId;
  /** Whether processes were started at all, by this or an earlier attempt of the activity. */
  readonly hasStarted: boolean;
  readonly startedAtMs?: number;
  readonly endedAtMs: number;
  readonly ranks: readonly RankEnd[];
  /** `completed`: every rank ended with 0. `failed`: see `cause`; a time limit is one. `stopped`: by an order or the cancellation. */
  readonly end: "completed" | "failed" | "stopped";
  readonly cause?: RunCause;
  /** The newest complete checkpoint of the job that this host can see. */
  readonly checkpoint?: CheckpointMark;
  /** Collective bandwidth of the whole gang, from the host whose processes measured it. */
  readonly measuredGbs?: number;
  /** What that is of; `USUAL_MESSAGES` when absent. */
  readonly messages?: MessageProfile;
  /** Typical time of a step, likewise. */
  readonly stepMs?: number;
  /** What NCCL had loaded of the plugin here; absent when unknown. */
  readonly ncclPlugins?: NcclPlugins;
  /** The most memory that the launch used at once there, file cache included; absent where it was not limited. */
  readonly peakMemoryBytes?: number;
  /** Of a batch, one for each of its tasks; a failed task does not fail the batch. */
  readonly tasks?: readonly TaskEnd[];
  /** The same, in the place of `tasks`, where the batch asks for it. */
  readonly packedTasks?: PackedEnds;
}

export interface RankEnd {
  readonly rank: number;
  readonly exitCode?: number;
  readonly signal?: string;
  readonly endedAtMs: number;
}

export interface RunCause {
  readonly code: FailureCode;
  readonly message: string;
  readonly rank?: number;
  readonly exitCode?: number;
  readonly signal?: string;
  /** When it happened: over a gang the earliest cause is the reported one. */
  readonly atMs: number;
  /** The last lines that the rank wrote, at most 2 KiB. */
  readonly lastLines?: string;
}

export interface CheckpointMark {
  /** Path as the host sees it. */
  readonly path: string;
  readonly atMs: number;
}

export interface LeaseOrder {
  readonly jobId: JobId;
  readonly host: HostId;
  readonly leaseId: LeaseId;
  readonly token: Token;
  /** The grant's, or a sweep's: for a host to which the lease is new, and for a sender other than the job. */
  readonly ticket?: string;
}

export interface StopOrder extends LeaseOrder {
  readonly isCheckpointFirst: boolean;
  /** KILL at once, also where a stop is under way already. Agents of former releases stop as the run says. */
  readonly isKill?: true;
  readonly reason: string;
}

export interface StopTasksOrder extends LeaseOrder {
  /** The batch that has them, which may not have arrived yet: a later one may run them again. */
  readonly batchSeq: number;
  readonly tasks: readonly number[];
  readonly reason: string;
}

export interface StopTasksReport {
  readonly host: HostId;
  /** Those of the named that had been started. */
  readonly stopped: readonly number[];
}

export interface CheckpointReport {
  readonly host: HostId;
  readonly isComplete: boolean;
  readonly checkpoint?: CheckpointMark;
  readonly message: string;
}

export interface StopReport {
  readonly host: HostId;
  readonly hadProcesses: boolean;
  readonly checkpoint?: CheckpointMark;
  /** How the run ended, for a job whose `run` is watched by nobody any more. Absent of batches, and where nothing was ever started. */
  readonly report?: RunReport;
}

export interface LogQuery {
  readonly jobId: JobId;
  readonly host: HostId;
  readonly leaseId: LeaseId;
  readonly rank: number;
  /** Of a job array: which task's output; `rank` counts inside the task. */
  readonly task?: number;
  /** Byte offset in the rank's whole output, rotated parts included; negative counts from the end. */
  readonly offset: number;
  readonly maxBytes: number;
  /** Wait up to this long for something new before answering with nothing. */
  readonly waitMs: number;
}

export interface LogChunk {
  readonly text: string;
  /** Where to read on. */
  readonly nextOffset: number;
  /** Bytes between the asked offset and the text that rotation has dropped. */
  readonly droppedBytes: number;
  /** The rank has ended and everything it wrote has been read. */
  readonly isEnd: boolean;
}
