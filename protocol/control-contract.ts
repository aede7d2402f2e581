/** @file Activities of the control plane: what the job and fleet workflows ask of their own workers. Types, and one version number. */

import type { BandwidthNote } from "../domain/lease/bandwidth-note.ts";
import type { FailureCode } from "../domain/values/codes.ts";
import type { JobSpec } from "../domain/job/job.ts";
import type { HostId, JobId, LeaseId, RunId, TenantId } from "../domain/values/ids.ts";
import type { ClosedRun, Lease, RequestKey } from "../domain/lease/lease.ts";
import type { LaunchExtra } from "../domain/lease/launch-extras.ts";
import type { PendingReason } from "../domain/lease/pending.ts";
import type { Plan } from "../domain/lease/plan.ts";
import type { StartEstimate } from "../domain/lease/start-estimate.ts";
import type { AgentAddress, InboxEntry } from "../domain/lease/inbox-entry.ts";
import type { PackedLedger } from "../domain/lease/packed-ledger.ts";
import type { SilenceTerms, SweepInput } from "./fleet.ts";
import type { LobbyExit } from "./lobby-contract.ts";
import type { RepairOrder, RepairReport } from "./repair.ts";
import type { GrantedAgent, PreemptOrder } from "./job.ts";
import type { CameFlawed, SealFlaw } from "./seal.ts";
import type { LobbyNews } from "./lobby.ts";
import type { TimedDrainInput } from "./timed-drain.ts";
import type { WordsToCheck, WordVerdicts } from "./word-proof.ts";

/** Local activities of the jobs' workers. */
export interface JobActivities {
  /**
   * Reads the job file, and, unless the job is held, hands its first request to the fleet. The answer also names the rules
   * (`JOB_RULES`) under which this run of the workflow goes: it is in history, so a later version can tell old runs from new ones.
   */
  admit(file: unknown, entry: JobEntry): Promise<Admission>;
  /**
   * Hands an entry to the fleet's inbox together with those of other jobs; returns when the fleet has it. Then tells the lobby in which the
   * job waited, if `exit` names one.
   */
  tellFleet(fleetWorkflowId: string, entry: InboxEntry, exit?: LobbyExit): Promise<NotifyResult>;
  /** Tells a lobby that a job does not wait there any more. */
  leaveLobby(exit: LobbyExit): Promise<void>;
  /** Where a host's agent is now; null when none has registered. `came`: what the agent is wanted for; fails with NOT_ALLOWED where that is not heard. */
  findHost(fleetWorkflowId: string, host: HostId, came?: CameFlawed): Promise<AgentAddress | null>;
  /** An operator's drain whose time has come. Fails for good where the fleet has no such host any more. */
  drainHost(order: TimedDrainInput): Promise<void>;
  /** What agents of a cluster are held to; the defaults when the fleet has no such cluster. Not a local one: it may wait for the fleet. `came`: the input of who asks; fails with NOT_ALLOWED where that is not heard. */
  silenceTerms(
    fleetWorkflowId: string,
    cluster: string,
    came?: CameFlawed,
  ): Promise<SilenceTerms & { readonly isProofAsked?: boolean }>;
  /** Whether the fleet's presences, lobbies and learners believe only what is proven; so they do where there is no fleet. `came`: as of `silenceTerms`. */
  asksForProof(fleetWorkflowId: string, came?: CameFlawed): Promise<boolean>;
  /** Whether the lease is in the fleet's ledger, be it only that hosts have yet to confirm its end; true as well where there is no fleet, or one that recovers and may have lost it. */
  hasLease(fleetWorkflowId: string, lease: LeaseId): Promise<boolean>;
  /** Returns when the fleet holds nothing of the job, neither a request nor a lease, be it only a vacating one; at once where there never was such a fleet. */
  untilForgotten(fleetWorkflowId: string, jobId: JobId): Promise<void>;
  /** Whether others wait for GPUs that leases hold; not where there is no fleet. */
  othersWait(fleetWorkflowId: string, jobId: JobId): Promise<boolean>;
}

/** Where and when a job enters. */
export interface JobEntry {
  readonly fleetWorkflowId: string;
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly submittedAtMs: number;
  readonly nowMs: number;
  /** How the job's input came, where that may be a reason to refuse it. */
  readonly flaw?: SealFlaw;
}

/** The version of the job workflow's logic that new runs follow. */
export const JOB_RULES = 10;

/** From here on a job asks hosts that refused it again, when for a time too few others answer. */
export const RESTING_RULES = 2;

/** From here on a job believes what it is told only with proof of who speaks; under a fleet that does so itself. */
export const SIGNED_JOB_RULES = 3;
/** From here on a job carries out orders only with proof of who gives them; under a fleet that does so itself. */
export const SIGNED_ORDER_JOB_RULES = 4;
/** From here on what roles tell a job before it has read its file waits for its proof, too; under a fleet that asks for all proofs. */
export const KEPT_WORDS_JOB_RULES = 5;
/** From here on a job can be moved to another fleet by order. */
export const MOVED_JOB_RULES = 5;
/** From here on a job follows a call from its lobby that comes again: the fleet may have put it outside since, under the same credit. */
export const RECALLED_RULES = 3;

/** From here on the patience of a job's first request counts from its submission. */
export const PATIENT_RULES = 3;

/** From here on leases of an array divide short tasks in one round, and their hosts report the ends packed. */
export const BULK_RULES = 4;
/** From here on a job whose gang has lost a host asks its fleet to keep the others, and asks again at once. */
export const REPLACING_RULES = 4;
/** From here on an array that is asked about a lease which it does not hold says so. */
export const DENYING_RULES = 6;
/** From here on a call for a request that its job has not made yet, as a reset tells it again, is no reason to leave the lobby: that request would not be listed. */
export const EARLY_CALL_RULES = 6;
/** From here on a job keeps the grant of a request that it has yet to make: a task of its workflow that had made it was lost, and the fleet has answered. */
export const EARLY_GRANT_RULES = 7;
/** From here on a job keeps a call that comes while it pauses until it asks: a word that it has left would bar that very request from its lobby. */
export const KEPT_CALL_RULES = 8;
/** From here on hosts that refused are asked again whatever a job was told of its waiting last: such words may be lost, or come late. */
export const RESTED_ANYWAY_RULES = 8;
/** From here on a job that is asked what it holds answers as the run that the question names: a run that was reset repeats the answer under an id of its own. */
export const ASKED_RUN_RULES = 9;
/** From here on a call is no reason to leave the lobby either for a job that has yet to ask under that number, because it waits for others or is held. */
export const UNASKED_CALL_RULES = 9;
/** From here on a gang that finds no agent for a host asks whether its lease is still there: after a reset nobody else may tell it. */
export const DOUBTED_LEASE_RULES = 10;
/** From here on an array that is asked what it holds gives up grants to the run before as well that it is about to take. */
export const DOUBTED_GRANT_RULES = 10;
/** From here on an array that is asked about no lease in particular ends those that it has asserted before and holds no more: a copy of that word may have come late. */
export const LATE_ASSERTION_RULES = 10;
/** From here on what local activities answer makes no order of a user durable, and a held job answers no call of its lobby before that order is. */
export const DURABLE_ORDER_RULES = 10;
/** From here on an order to give up a run of which nothing was started is durable before the fleet hears of it, and a held job gives back what was granted for a release that was lost. */
export const DURABLE_GIVING_UP_RULES = 10;
/** From here on an array that is called under a request of a former tenant leaves the lobby of that one. */
export const FORMER_LOBBY_RULES = 10;
/** From here on a job that enters goes on with a later request of its own that its fleet has answered: it made that in a task of the workflow that was lost. */
export const EARLY_NUMBER_RULES = 10;
/** From here on a job that is called in the moment of its end gives the credit back, and an array waits for its lobby to have it. */
export const CALLED_END_RULES = 10;
/** From here on an array orders its hosts again to stop tasks, where they did not carry the order out. */
export const REPEATED_STOP_RULES = 9;
/** From here on tasks of an array can be cancelled, and run after all, while it waits for other jobs. */
export const EARLY_TASKS_RULES = 10;
/** From here on a gang over several hosts hears that a GPU of one of them has broken, and has all hosts write its checkpoint. */
export const TOLD_FAULT_RULES = 10;
/** From here on the failure of a task over several hosts is not charged where one of its hosts was lost before, as that of a gang is not. */
export const FAULTED_TASK_RULES = 10;

export type Admission =
  | {
      readonly kind: "admitted";
      readonly rules: number;
      readonly spec: JobSpec;
      /** The run of the workflow that asked: no grant for another one answers it. Absent in histories of former releases. */
      readonly runId?: RunId;
      readonly notified: NotifyResult;
      /** What is made for its runs before they start; absent when nothing is. */
      readonly launchExtras?: readonly LaunchExtra[];
    }
  | { readonly kind: "refused"; readonly code: FailureCode; readonly message: string };

export type NotifyResult =
  /** The fleet has it. */
  | { readonly kind: "delivered" }
  /** Nothing was asked of the fleet: the job is held. */
  | { readonly kind: "silent" }
  | { readonly kind: "no-fleet"; readonly message: string };

/** Activities of the fleet's worker. `decide`, `decideNext` and `checkAndDecide` are local ones: their answers are in history, their arguments are not. */
export interface FleetActivities {
  /** Of a fleet with rules of version 1, which sends its whole ledger every time. */
  decide(snapshot: PackedLedger, nowMs: number): Promise<Plan>;
  /** From rules of version 2 on. The decider keeps the ledger and is fed with the events since; the same question may be asked again. */
  decideNext(question: DecideQuestion): Promise<Decision>;
  /** From rules of version 8 on. What is decided if all of these words pass; no decision otherwise. */
  checkAndDecide(list: WordsToCheck, values: Uint8Array, ahead: FeedAt): Promise<JointAnswer>;
  /** Signals the winners of a cycle and those who are to make room, tells waiting jobs why they wait and running ones what they have lost, and starts sweeps. */
  deliver(post: Post): Promise<DeliveryReport>;
  /** Looks at the runs of jobs themselves; asks those that were reset, or whose leases are doubted, to speak for themselves. */
  audit(holders: AuditOrder): Promise<AuditReport>;
  /** When some of the jobs that wait would start, from plays of the queue on the ledger of this moment. Takes seconds. */
  estimateStarts(order: EstimateOrder): Promise<StartEstimates>;
  /** Asks all presences to report and, for a fleet that has lost its ledger, all open jobs to assert what they have. */
  recover(order: RecoverOrder): Promise<void>;
  /** Asks jobs and agents about what an operator doubts. Takes up to some minutes where agents do not answer. */
  repair(order: RepairOrder): Promise<RepairReport>;
}

export type DecideQuestion =
  | ({ readonly kind: "feed" } & FeedAt)
  | { readonly kind: "snapshot"; readonly snapshot: Snapshot; readonly nowMs: number };

export interface FeedAt {
  readonly feed: Feed;
  readonly nowMs: number;
}

export interface JointAnswer {
  readonly verdicts: WordVerdicts;
  readonly decision?: Decision;
}

/** The way from a ledger that a decider may have to the fleet's present one; see `scheduling/ledger/event-chain.ts`. */
export interface Feed {
  readonly fleet: string;
  readonly run: string;
  readonly rules: number;
  readonly since: string;
  readonly links: readonly string[];
  /** After the links. */
  readonly hash: string;
  /** Of the ledger after them. */
  readonly figures: readonly number[];
}

/** The fleet's present ledger, for a decider that is to keep it. */
export interface Snapshot {
  readonly fleet: string;
  readonly hash: string;
  readonly ledger: PackedLedger;
}

export type Decision =
  /** `answer`: its name, by which a later feed refers to the plan. */
  | { readonly kind: "plan"; readonly plan: Plan; readonly answer: string }
  /** The decider cannot get to the present ledger by the feed: it needs a snapshot. */
  | { readonly kind: "stale"; readonly reason: StaleReason };

/** `new`: it keeps no ledger of the fleet; `other`: one that the chain does not pass; `unequal`: one that turned out otherwise. */
export type StaleReason = "new" | "other" | "unequal";

export interface EstimateOrder {
  readonly fleet: string;
}

export interface StartEstimates {
  readonly askedAtMs: number;
  readonly estimates: readonly StartEstimate[];
}

export interface AuditOrder {
  readonly holders: readonly Holder[];
  /** Those of the holders that are to assert what they hold, if they live. */
  readonly asked: readonly JobId[];
  /** Leases that hosts run and no job has claimed, of arrays among the holders; bounded. Absent where there are none. */
  readonly doubted?: readonly { readonly jobId: JobId; readonly lease: LeaseId }[];
}

export interface Holder {
  readonly jobId: JobId;
  readonly runId: RunId;
}

export interface AuditReport {
  /** Runs that are closed, or that the job has left behind by a reset. */
  readonly closed: readonly ClosedRun[];
}

export interface RecoverOrder {
  /** Whether jobs are to be asked as well. */
  readonly isLedgerLost: boolean;
  /** The fleet has its ledger and has dropped words: jobs are to be asked, and lobbies keep their credits. Absent otherwise. */
  readonly areWordsLost?: true;
  /** For lobbies of a lost ledger: none that the present one has given and not had back has a lower number. Absent where it gives none, and of former releases. */
  readonly creditsFrom?: number;
  readonly fleet: string;
  readonly clusters: readonly string[];
}

export interface Post {
  readonly grants: readonly Delivery[];
  readonly pending: readonly PendingNote[];
  /** Absent in the posts of fleets that know of no fences. */
  readonly losses?: readonly Loss[];
  readonly sweeps?: readonly SweepInput[];
  /** Absent when nobody is evicted. */
  readonly evictions?: readonly EvictionOrder[];
  /** One for each lobby; absent when none has news. */
  readonly lobbies?: readonly LobbyNews[];
  /** Why the jobs wait that `lobbies` have rows of; absent when they have none. */
  readonly outside?: readonly OutsideReason[];
}

export interface OutsideReason {
  readonly tenant: TenantId;
  readonly reason: PendingReason;
}

/** Asks a job to give up a lease. */
export interface EvictionOrder extends Holder {
  readonly order: PreemptOrder;
}

/** Tells a job that nothing of its lease counts on these hosts any more. */
export interface Loss extends Holder {
  readonly lease: LeaseId;
  readonly hosts: readonly HostId[];
}

/** One grant on its way to its job. */
export interface Delivery {
  readonly lease: Lease;
  readonly reason: string;
  readonly predictedGBs?: number;
  readonly bandwidth?: BandwidthNote;
  readonly agents: readonly GrantedAgent[];
}

export interface PendingNote extends RequestKey {
  readonly reason: PendingReason;
}

/** A grant that is in neither list could not be delivered yet and stays in the outbox. */
export interface DeliveryReport {
  readonly accepted: readonly LeaseId[];
  readonly gone: readonly LeaseId[];
  /** Orders to give up leases; one that is in neither list goes again. Absent when there was none. */
  readonly evictions?: { readonly sent: readonly LeaseId[]; readonly gone: readonly LeaseId[] };
  /** Whose lobbies have their news; that of the others goes again. Absent when there was none. */
  readonly lobbies?: readonly TenantId[];
}
