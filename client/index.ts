/** @file The package `orbweaver`: the client, its errors, and the types of its answers. */

export {
  OrbweaverClient,
  type FleetClient,
  type OrbweaverClientOptions,
} from "./orbweaver-client.ts";
export {
  openServiceClient,
  type ClientCertificate,
  type ServiceAddress,
} from "./service-client.ts";
export type { Doubt, DoubtedHost, JobWord } from "./doubts.ts";
export type { FencedHost, FencedLease, FenceOptions } from "./fencing.ts";
export type {
  CancelOptions,
  JobEnding,
  JobExplanation,
  JobHandle,
  JobOutcome,
  MoveOptions,
} from "./job-handle.ts";
export type { AmendOptions, NewSettings } from "./amendment.ts";
export { gpuUse } from "./gpu-use.ts";
export { neverStarted } from "./job-logs.ts";
export type { ProgressOptions, RunProgress } from "./run-progress.ts";
export type { LogOptions } from "./log-options.ts";
export type { JobFilter } from "./job-filter.ts";
export { JOB_STATES, parseJobState, type ListedJob, type ListedState } from "./listed-job.ts";
export { decodedPayloads } from "./payloads.ts";
export { asked, translated } from "./server-error.ts";
export { MAX_REQUEST_BYTES } from "../domain/lease/gang-request.ts";
export { MAX_JOB_FILE_BYTES } from "../domain/lease/job-size.ts";
export type { Rerun, RerunOptions } from "./rerun.ts";
export { sendInOrder, type SubmitAllOptions } from "./submit-all.ts";
export { readJob, type Submitted, type SubmitOptions } from "./submission.ts";
export { OrbweaverError } from "../domain/values/failure.ts";
export type { FailureCode, PendingCode } from "../domain/values/codes.ts";
export type { ClusterId, HostId, JobId, LeaseId, TenantId } from "../domain/values/ids.ts";
export type { JobFile } from "../domain/job/job-file.ts";
export type { Constraints, Gang, JobClass, JobSpec, RunSpec } from "../domain/job/job.ts";
export type { HostGpus, Lease } from "../domain/lease/lease.ts";
export type { PendingReason } from "../domain/lease/pending.ts";
export type { Ledger, RepairNote } from "../scheduling/ledger/ledger.ts";
export {
  JOB_TASK_QUEUE,
  JOB_WORKFLOW,
  type AmendAnswer,
  type AttemptView,
  type FleetAnswer,
  type JobFailureDetails,
  type JobOptions,
  type JobResult,
  type JobState,
  type JobView,
  type MoveAnswer,
  type LobbyPlace,
  type ArrayView,
  type TaskCounts,
  type TaskOrderAnswer,
  type TaskPage,
  type TaskQuery,
  type TaskState,
  type TaskView,
} from "../protocol/messages.ts";
