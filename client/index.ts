/** @file What `import … from "orbweaver"` gives: the client, its errors, and the nouns that its answers are made of. */

export { OrbweaverClient, type OrbweaverClientOptions } from "./orbweaver-client.ts";
export type { FencedHost, FencedLease, FenceOptions } from "./fencing.ts";
export type { JobEnding, JobExplanation, JobHandle, JobOutcome } from "./job-handle.ts";
export { neverStarted, type LogOptions } from "./job-logs.ts";
export { JOB_STATES, parseJobState, type JobFilter, type ListedJob } from "./job-list.ts";
export { decodedPayloads } from "./payloads.ts";
export { asked, translated } from "./server-error.ts";
export { MAX_REQUEST_BYTES } from "../domain/gang-request.ts";
export { MAX_JOB_FILE_BYTES } from "../domain/job-size.ts";
export { readJob, type Submitted, type SubmitOptions } from "./submission.ts";
export { OrbweaverError } from "../domain/failure.ts";
export type { FailureCode, PendingCode } from "../domain/codes.ts";
export type { ClusterId, HostId, JobId, LeaseId, TenantId } from "../domain/ids.ts";
export type { JobFile } from "../domain/job-file.ts";
export type { Constraints, Gang, JobClass, JobSpec, RunSpec } from "../domain/job.ts";
export type { HostGpus, Lease } from "../domain/lease.ts";
export type { PendingReason } from "../domain/pending.ts";
export {
  JOB_TASK_QUEUE,
  JOB_WORKFLOW,
  type AttemptView,
  type FleetAnswer,
  type JobFailureDetails,
  type JobOptions,
  type JobResult,
  type JobState,
  type JobView,
  type Ledger,
  type ArrayView,
  type TaskCounts,
  type TaskOrderAnswer,
  type TaskPage,
  type TaskQuery,
  type TaskState,
  type TaskView,
} from "../workflows/messages.ts";
