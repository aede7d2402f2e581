/**
 * @file The signals, updates and queries between clients, jobs and the fleet.
 *
 * A client in any language submits with `start("job", taskQueue "orbweaver-jobs", [jobFile])`; nothing else is needed
 * where hosts trust the namespace; elsewhere the memo `PROOF_MEMO` (`signed-job.ts`) has the submitter's signature.
 */

import { defineQuery, defineSignal, defineUpdate } from "@temporalio/workflow";
import type { FleetShape } from "../domain/fleet/fleet.ts";
import type { HostGpus } from "../domain/lease/lease.ts";
import type { AgentAddress } from "../domain/lease/inbox-entry.ts";
import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import type { FleetAnswer } from "../domain/lease/pending.ts";
import type { HostId, JobId, LeaseId } from "../domain/values/ids.ts";
import type { LogChunk, LogQuery } from "./agent-contract.ts";
import type { AmendOrder, MoveOrder, Ordered } from "./job-orders.ts";
import type { PresentAgent, SilenceTerms } from "./fleet.ts";
import type { PredecessorNews } from "./predecessors.ts";
import type { Disbelieved, OrderOutcome, Proven } from "./word-proof.ts";
import type {
  AmendAnswer,
  Grant,
  JobState,
  JobView,
  MoveAnswer,
  PreemptOrder,
  TaskOrder,
  TaskOrderAnswer,
  TaskPage,
  TaskQuery,
  WaitNote,
} from "./job.ts";

export * from "./collective-messages.ts";
export * from "./fleet.ts";
export * from "./job.ts";
export * from "./job-orders.ts";
export * from "./link-messages.ts";
export * from "./lobby.ts";
export * from "./model-messages.ts";
export * from "./names.ts";
export * from "./predecessors.ts";
export * from "./queue-orders.ts";
export * from "./repair.ts";
export * from "./word-proof.ts";
export type { FleetAnswer } from "../domain/lease/pending.ts";

/** What became of an order that was answered with null, by the id of its update. */
export const orderQuery = defineQuery<OrderOutcome, [string]>("order");

/** Words that a job did not believe, by the name that their senders give themselves. */
export const disbelievedQuery = defineQuery<readonly Disbelieved[]>("disbelieved");

/** One batch of inbox entries; unknown entries go to the dead letters, never to an error. */
export const inboxSignal = defineSignal<[readonly unknown[]]>("inbox");

export const grantSignal = defineSignal<[Grant]>("grant");

/** The grants of one cycle to one job array: several answers to one request. */
export const grantsSignal = defineSignal<[readonly Grant[]]>("grants");

export const preemptSignal = defineSignal<[PreemptOrder]>("preempt");

/** A signal's name and value, for a run that Temporal sends no further signal: it takes 10,000 in its life. */
export const wordUpdate = defineUpdate<void, [JobWord]>("word");

export interface JobWord {
  readonly signal: string;
  readonly value?: unknown;
  /** As the header of a signal has it (`word-proof.ts`). */
  readonly proof?: string;
}

export const pendingSignal = defineSignal<[WaitNote]>("pending");

/** Former clients send it without its author. */
export const holdUpdate = defineUpdate<JobState | null, Proven<Ordered>>("hold");

export const releaseUpdate = defineUpdate<JobState | null, Proven<null>>("release");

/** Whatever is being stopped of the job, or will be, is killed at once: no checkpoint, no grace. Ends nothing by itself; a cancellation does. */
export const killSignal = defineSignal("kill");

/** Ends the run with a checkpoint, gives the GPUs back, and holds the job; of a waiting job, the same as a hold. */
export const suspendUpdate = defineUpdate<JobState | null, Proven<Ordered>>("suspend");

/** Ends the run in the same way; the job asks again at once, with its age. */
export const requeueUpdate = defineUpdate<JobState | null, Proven<Ordered>>("requeue");

/** Has another fleet run the job, after the end of its run with a checkpoint; with its age. */
export const moveUpdate = defineUpdate<MoveAnswer | null, Proven<MoveOrder>>("move");

/** Changes settings of the job. */
export const amendUpdate = defineUpdate<AmendAnswer | null, Proven<AmendOrder>>("amend");

export const jobViewQuery = defineQuery<JobView>("job");

export const tasksQuery = defineQuery<TaskPage, [TaskQuery]>("tasks");

export const cancelTasksUpdate = defineUpdate<TaskOrderAnswer | null, Proven<TaskOrder>>(
  "cancel-tasks",
);

/** Runs ended tasks again, as if they had never been tried. */
export const retryTasksUpdate = defineUpdate<TaskOrderAnswer | null, Proven<TaskOrder>>(
  "retry-tasks",
);

/** `isNew`: refused where one of the hosts is drained already, so that its reason stays. */
export const drainUpdate = defineUpdate<
  readonly HostId[] | null,
  Proven<{ readonly hosts: readonly string[]; readonly reason: string; readonly isNew?: true }>
>("drain");

/** The operator commits newer rules: the next run of the fleet follows them, and there is no way back. */
export const upgradeUpdate = defineUpdate<void | null, Proven<number>>("upgrade");

/** `of`: refused where one of the hosts has been drained for a reason that does not begin so. */
export const undrainUpdate = defineUpdate<
  readonly HostId[] | null,
  Proven<{ readonly hosts: readonly string[]; readonly of?: string }>
>("undrain");

/** `isNew`: refused where one of the GPUs is drained already. From `GPU_DRAIN_RULES` of the fleet on. */
export const drainGpusUpdate = defineUpdate<
  null,
  Proven<{ readonly gpus: readonly HostGpus[]; readonly reason: string; readonly isNew?: true }>
>("drain-gpus");

/** `of`: refused where one of the GPUs has been drained for a reason that does not begin so. */
export const undrainGpusUpdate = defineUpdate<
  null,
  Proven<{ readonly gpus: readonly HostGpus[]; readonly of?: string }>
>("undrain-gpus");

/** Replaces the fleet's description; what runs goes on, over-use shows as such. */
export const configureUpdate = defineUpdate<
  void | null,
  Proven<Pick<PackedLedger, "shape" | "detailsHash">>
>("configure");

export const ledgerQuery = defineQuery<PackedLedger>("ledger");

export const explainQuery = defineQuery<FleetAnswer, [string]>("explain");

/** Of the clusters named: all their hosts, the links between them, no tenants. */
export const shapeQuery = defineQuery<FleetShape, [readonly string[]]>("shape");

export const hostQuery = defineQuery<AgentAddress | null, [string]>("host");

/** What an agent of the cluster and the fleet agree on about silence; null when the fleet has no such cluster. */
export const silenceTermsQuery = defineQuery<SilenceTerms | null, [string]>("silence-terms");

export const hasLeaseQuery = defineQuery<boolean, [LeaseId]>("has-lease");

/** Whether others than this job wait for GPUs that leases hold. */
export const othersWaitQuery = defineQuery<boolean, [JobId]>("others-wait");

/** An operator vouches that nothing runs on these hosts. */
export const fenceUpdate = defineUpdate<
  readonly HostId[] | null,
  Proven<{ readonly hosts: readonly string[] }>
>("fence");

/** Tells a job that nothing of this lease counts on these hosts any more: they were fenced, or the lease is another's. */
export const fencedSignal =
  defineSignal<[{ readonly lease: LeaseId; readonly hosts: readonly HostId[] }]>("fenced");

/** A job wants to hear of the start and of the end of the one that gets this. */
export const followSignal = defineSignal<[{ readonly job: JobId }]>("follow");

export const predecessorSignal = defineSignal<[PredecessorNews]>("predecessor");

/**
 * Asks a job to tell the fleet again what it waits for or holds: the fleet has lost its ledger, or doubts it. `leases`: those of the job that a host runs and
 * that it has not claimed; an array says which of them it does not hold. Absent of former releases. `runId`: the run that is asked, as the server names it; absent of releases
 * before rules 9 of jobs.
 */
export const assertSignal =
  defineSignal<[{ readonly leases: readonly LeaseId[]; readonly runId?: string }]>("assert");

/** An agent is there, or has found out that nobody attends it. */
export const announceSignal = defineSignal<[PresentAgent]>("announce");

/** An agent ends on purpose. */
export const deregisterSignal = defineSignal<[{ readonly epoch: string }]>("deregister");

/** The fleet has lost its ledger, or its rules about silence have changed: every agent is to report again. */
export const reportAgainSignal = defineSignal("report-again");

/** The same to a lobby. It keeps credits with numbers from `creditsFrom` on, which the present ledger has given. Without that, as of former releases, it forgets all. */
export const countAgainSignal = defineSignal<[{ readonly creditsFrom?: number }]>("report-again");

export const readLogUpdate = defineUpdate<LogChunk, [LogQuery]>("read");

export const endLogSessionSignal = defineSignal("end");
