/**
 * @file The words between clients, jobs and the fleet: workflow names, task queues, signals, updates and queries.
 *
 * A client in any language submits with `start("job", taskQueue "orbweaver-jobs", [jobFile])`; nothing else is needed.
 */

import { defineQuery, defineSignal, defineUpdate } from "@temporalio/workflow";
import type { FailureCode, PendingCode } from "../domain/codes.ts";
import type { HostId, JobId, LeaseId } from "../domain/ids.ts";
import type { JobSpec } from "../domain/job.ts";
import type { HostGpus, Lease } from "../domain/lease.ts";
import type { FleetAnswer, PendingReason } from "../domain/pending.ts";
import type { AgentAddress } from "../scheduling/ledger.ts";
import type { PackedLedger } from "../scheduling/ledger-codec.ts";
import type { LogChunk, LogQuery, RunCause } from "../activities/agent-contract.ts";

export const JOB_TASK_QUEUE = "orbweaver-jobs";
export const FLEET_TASK_QUEUE = "orbweaver-fleet";
export const JOB_WORKFLOW = "job";
export const FLEET_WORKFLOW = "fleet";
export const LOG_SESSION_WORKFLOW = "log-session";
export const DEFAULT_FLEET = "default";
export const fleetWorkflowId = (fleet: string): string => `orbweaver-fleet-${fleet}`;

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
  readonly reason: string;
  readonly agents: readonly { readonly host: HostId; readonly agent: AgentAddress }[];
}
export const grantSignal = defineSignal<[Grant]>("grant");

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
  readonly fleet: string;
  readonly spec?: JobSpec;
  readonly state: JobState;
  /** Why it waits, as far as the job was told; the fleet's `explain` has the live numbers. */
  readonly pending?: PendingReason;
  readonly submittedAtMs: number;
  readonly attempts: readonly AttemptView[];
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
  readonly reason: string;
  readonly end?: "completed" | "failed" | "stopped";
  readonly cause?: RunCause & { readonly host: HostId };
}
export const jobViewQuery = defineQuery<JobView>("job");

/** The result of a job that completed. */
export interface JobResult {
  readonly jobId: JobId;
  readonly attempts: number;
  readonly gpus: number;
  readonly hosts: readonly HostId[];
  readonly queuedMs: number;
  readonly ranMs: number;
  readonly checkpoint?: string;
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
}

export interface FleetInput {
  readonly name: string;
  readonly ledger: PackedLedger;
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
export const hostQuery = defineQuery<AgentAddress | null, [string]>("host");

/** A log session: a short-lived workflow that carries log reads to an agent's order queue. */
export interface LogSessionInput {
  readonly fleet: string;
  readonly idleMs: number;
}
export const readLogUpdate = defineUpdate<LogChunk, [LogQuery]>("read");
export const endLogSessionSignal = defineSignal("end");
