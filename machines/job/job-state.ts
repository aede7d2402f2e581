/**
 * @file The state of a job, the stages of its life, the events that change it and the commands that it gives.
 *
 * Life: entering → unasked → asking → waiting → granted → preparing → ready → running → settling → backing off → unasked …, until it is over.
 * The stages beside that line are the pause without a fleet, the hold, and the move to another fleet.
 */

import type { Amendment } from "../../domain/job/amendment.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { LaunchExtra, LaunchExtras } from "../../domain/lease/launch-extras.ts";
import type { InferenceFacts } from "../../domain/model/inference-facts.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { PreemptionLimits } from "../../domain/lease/preemption-limits.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { FailureCode } from "../../domain/values/codes.ts";
import type { HostId, JobId, LeaseId, RunId, TenantId, Token } from "../../domain/values/ids.ts";
import type { Admission, JobEntry, NotifyResult } from "../../protocol/control-contract.ts";
import type {
  AttemptView,
  CellMemo,
  Grant,
  JobFailureDetails,
  JobResult,
  JobState,
  PreemptOrder,
  TaskOrder,
} from "../../protocol/job.ts";
import type { GivenUp, Moving, Pause } from "../../protocol/job-orders.ts";
import type { PredecessorNews, PredecessorView } from "../../protocol/predecessors.ts";
import type { LobbyExit } from "../../protocol/lobby-contract.ts";
import type { LobbyCall } from "../../protocol/lobby.ts";
import type {
  LaunchExtrasOrder,
  LaunchExtrasReport,
  PolishOrder,
} from "../../protocol/launch-extras-contract.ts";
import type { TaskTable } from "../array/task-table.ts";
import type { GangCommand } from "../gang/gang-commands.ts";
import type { GangEnd } from "../gang/gang-end.ts";
import type { Gang, GangAnswer, StopReason } from "../gang/gang-state.ts";
import type { RunAccount } from "../gang/retry-verdict.ts";
import type { Cells } from "./cells.ts";
import type { Followers, FollowersCommand } from "./followers.ts";

/** What never changes in one run of the workflow. */
export interface JobIdentity {
  readonly jobId: JobId;
  readonly runId: RunId;
  /** The fleet to which the job was submitted. */
  readonly home: string;
  readonly submittedAtMs: number;
  /** The client has set its search attributes at the start. */
  readonly isListed: boolean;
}

export interface Job extends JobIdentity {
  readonly stage: Stage;
  /** The state that users see. */
  readonly shown: JobState;
  readonly spec?: JobSpec;
  /** What is made for each of its runs before the start. */
  readonly extras: readonly LaunchExtra[];
  readonly cells: Cells;
  /** Number of the present request. */
  readonly seq: number;
  /** A fleet may have the present request. */
  readonly hasRequest: boolean;
  readonly requestedAtMs: number;
  /** How long after its submission it first asked, which is part of its first patience. */
  readonly lateMs: number;
  /** The jobs that it waits for, or has waited for. */
  readonly predecessors: readonly PredecessorView[];
  /** When all of those had come; its age at the fleet counts from then. */
  readonly eligibleAtMs?: number;
  /** Of an array that waits for other jobs, or has waited for them. */
  readonly tasks?: TaskTable;
  readonly followers: Followers;
  /** Why the fleet has not granted the request yet, as far as the job was told. */
  readonly pending?: PendingReason;
  /** The run of its workflow that was admitted, and when it began: another one than `runId` after a reset to a later point. Absent in histories of former releases. */
  readonly entered?: { readonly runId: RunId; readonly atMs: number };
  /** The answer to the present request. */
  readonly grant?: Grant;
  /** The answer to a request that it has yet to make: it was made in a task of the workflow that was lost. */
  readonly nextGrant?: Grant;
  /** While it enters: the last grant that it was told for each run, also for former ones where the workflow was reset to its beginning. */
  readonly retold?: readonly Grant[];
  /** While it enters: the newest grant for a request after its first one, of this run or of a former one. */
  readonly later?: Grant;
  /** The last lease of the run before a reset to the beginning: nothing starts until the fleet has nothing of it. */
  readonly former?: FormerLease;
  readonly isHeld: boolean;
  /** Who holds it, where that was said. */
  readonly pause?: Pause;
  /** Somebody wants the present run to end, and the job to wait or to ask again. */
  readonly givenUp?: GivenUp;
  /** When it acts on that where nothing was started; absent under former rules. */
  readonly actsAtMs?: number;
  /** It is to leave its fleet for another by order. */
  readonly moving?: Moving;
  /** The fleets that granted its runs, with the tokens: the last ones, oldest first. */
  readonly ranUnder: readonly RanUnder[];
  /** For how long its suspended and moved runs had run: its time limit counts on from there. */
  readonly suspendedRunMs: number;
  readonly amended: AmendedSoFar;
  /** Its present number has not been asked for yet: the settings of the request that a fleet has are old. */
  readonly reask?: { readonly atMs: number; readonly exit?: LobbyExit };
  /** The tenant of its requests up to that number. */
  readonly tenantBefore?: { readonly upTo: number; readonly tenant: TenantId };
  /** Released before its file was read, which ends the file's own hold. */
  readonly isReleased: boolean;
  readonly reason?: StopReason;
  /** Whatever is stopped of it is killed at once. */
  readonly isKilled?: true;
  /** The order to give up the lease of the present grant. */
  readonly preempt?: PreemptOrder;
  /** How often it may have to give way, as the last order to do so said it; no limits when absent. */
  readonly preemptionLimits?: PreemptionLimits;
  /** While it asks again after the loss of a host: its other GPUs, which its fleet keeps for it until then. */
  readonly kept?: KeptGpus;
  /** Hosts of the present grant that the fleet has given up. */
  readonly fenced: readonly HostId[];
  readonly attempts: readonly AttemptView[];
  readonly account: RunAccount;
  /** Hosts that have not confirmed the end of a run: no later message may say that they have. */
  readonly doubtful: readonly HostId[];
  /** Hosts that refused to start it. */
  readonly avoidHosts: readonly HostId[];
  /** The version of the job's logic, see `JOB_RULES`. */
  readonly rules: number;
  /** A part of its GPUs was taken and the rest is reserved for it, so it accepts the smaller gang at once. */
  readonly isShrunk: boolean;
  /** Changes of its search attributes so far. */
  readonly marks: number;
  /** Pauses in a row because no fleet answered. */
  readonly noFleetPauses: number;
  readonly lane: FleetLane;
  /** The lease of a run of its workflow that was reset. */
  readonly orphan?: OrphanLease;
  /** A call from the lobby that it has not answered yet. */
  readonly call?: LobbyCall;
  /** The credit of the last call that it followed. */
  readonly usedCredit?: number;
  /** How often its present request was inside and gave way; absent for a request that was never called in. */
  readonly round?: number;
  /** The improvement of the present run's plan, while it is due or under way. */
  readonly polish?: PolishState;
  /** Grants to a job array that came before its file was read. */
  readonly earlyGrants: readonly unknown[];
  /** Signals that said nothing. */
  readonly junkSignals: number;
  /** Something has happened that it has not acted on yet. */
  readonly isStirred: boolean;
}

export interface KeptGpus {
  readonly gpus: readonly HostGpus[];
  readonly untilMs: number;
}

export interface RanUnder {
  readonly fleet: string;
  readonly token: Token;
}

export type PolishState =
  | { readonly kind: "due"; readonly atMs: number; readonly limitMs: number }
  | { readonly kind: "asked"; readonly id: number };

/** How the settings of a job were changed since its submission. */
export interface AmendedSoFar {
  readonly count: number;
  /** The last ones. */
  readonly last: readonly Amendment[];
  /** The last signatures, newest last. */
  readonly proofs: readonly string[];
}

export type Stage =
  /** Its file is being read. */
  | { readonly kind: "entering" }
  /** It is an array, whose own logic has taken over. */
  | { readonly kind: "array"; readonly notified: NotifyResult; readonly rules: number }
  /** It waits for other jobs. `askId`: a look at them is under way; `isKnown`: they have been told of it. */
  | {
      readonly kind: "following";
      readonly rules: number;
      readonly lookAtMs: number;
      readonly isKnown: boolean;
      readonly askId?: number;
    }
  /** It has no request at a fleet, and what it does next depends on its holds and wishes. */
  | { readonly kind: "unasked" }
  | { readonly kind: "asking" }
  | { readonly kind: "waiting" }
  | { readonly kind: "no-fleet"; readonly untilMs: number }
  /** It is to be held or moved, and its request is taken back at that time. */
  | { readonly kind: "holding"; readonly atMs: number }
  | { readonly kind: "withdrawing"; readonly next: Withdrawal }
  | { readonly kind: "held" }
  /** Waits until its present fleet holds nothing of it. */
  | { readonly kind: "leaving"; readonly id: number }
  | { readonly kind: "granted"; readonly grant: Grant }
  /** Launch extras are being made. */
  | { readonly kind: "preparing"; readonly grant: Grant; readonly id: number }
  | { readonly kind: "ready"; readonly grant: Grant; readonly launchExtras?: LaunchExtras }
  | { readonly kind: "running"; readonly gang: Gang }
  /** The run is over, and the fleet is being told. */
  | { readonly kind: "settling"; readonly end: GangEnd }
  | { readonly kind: "backing-off"; readonly untilMs: number }
  /** Stops before it was granted anything. */
  | { readonly kind: "ending" }
  | { readonly kind: "over"; readonly outcome: JobOutcome };

/** What follows once the present request is taken back. */
export type Withdrawal = "hold" | "ask" | "leave";

export type JobOutcome =
  | { readonly kind: "completed"; readonly result: JobResult }
  | { readonly kind: "cancelled" }
  | {
      readonly kind: "failed";
      readonly code: FailureCode;
      readonly message: string;
      readonly details: Omit<JobFailureDetails, "code">;
    };

/**
 * Messages to fleets. One is on its way at a time, because several local activities end in another order on replay
 * (docs/decisions/0014).
 */
export interface FleetLane {
  readonly sent?: { readonly id: number; readonly message: FleetMessage };
  readonly queue: readonly FleetMessage[];
  /** Commands with numbers so far. */
  readonly count: number;
  /** A fleet has lost its ledger, or doubts it, and wants to hear what the job has. */
  readonly isAsked: boolean;
  /** The run that the last question named. */
  readonly askedRun?: RunId;
  /** The former requests have been ended in answer to that; the present one is next. */
  readonly isAnswering: boolean;
  /** The highest request that is over and was granted all the same; 0 when there is none to give back. */
  readonly staleUpTo: number;
}

export interface OrphanLease extends AskedLease {
  readonly gpus: readonly HostGpus[];
}

export interface FormerLease extends AskedLease {
  readonly grantedAtMs: number;
}

export interface AskedLease {
  readonly lease: LeaseId;
  readonly pauses: number;
  /** When the fleet is asked whether it still has the lease; absent while it is being asked. */
  readonly askAtMs?: number;
  /** The question that is on its way. */
  readonly askId?: number;
}

export interface FleetMessage {
  readonly fleet: string;
  /** Absent when the lobby alone is told. */
  readonly entry?: InboxEntry;
  /** For the lobby in which the request has waited. */
  readonly exit?: LobbyExit;
  readonly purpose: Purpose;
}

/** What the delivery of a message is awaited for; `aside` messages are awaited for nothing. */
export type Purpose = "request" | "withdraw" | "settle" | "end" | "answer" | "aside";

export type JobEvent =
  | { readonly kind: "admission"; readonly admission: Admission }
  /** Signals of fleets are checked here: their payloads may be junk. */
  | { readonly kind: "grant"; readonly offer: unknown }
  | { readonly kind: "grants"; readonly offers: unknown }
  | { readonly kind: "pending"; readonly note: unknown }
  | { readonly kind: "preempt"; readonly order: unknown }
  | { readonly kind: "fenced"; readonly loss: unknown }
  | { readonly kind: "assert"; readonly question?: unknown }
  | { readonly kind: "follow"; readonly note: unknown }
  | { readonly kind: "predecessor"; readonly note: unknown }
  | { readonly kind: "followed"; readonly id: number; readonly news: readonly PredecessorNews[] }
  | { readonly kind: "call-in"; readonly call: unknown }
  /** A signal of a name that nobody sends. */
  | { readonly kind: "junk" }
  /** Orders of people; what they say of themselves may be junk. */
  | { readonly kind: "hold"; readonly order?: unknown }
  | { readonly kind: "release" }
  | { readonly kind: "suspend"; readonly order: unknown }
  | { readonly kind: "requeue"; readonly order: unknown }
  | { readonly kind: "move"; readonly order: unknown }
  | { readonly kind: "amend"; readonly order: unknown }
  | { readonly kind: "cancel-tasks"; readonly order: TaskOrder }
  | { readonly kind: "retry-tasks"; readonly order: TaskOrder }
  | { readonly kind: "cancel" }
  | { readonly kind: "kill" }
  | { readonly kind: "told"; readonly id: number; readonly result: NotifyResult }
  | { readonly kind: "lease"; readonly id: number; readonly isThere: boolean }
  | { readonly kind: "forgotten"; readonly id: number }
  /** `report` is null when no solver worker has made them in time. */
  | {
      readonly kind: "extras";
      readonly id: number;
      readonly report: LaunchExtrasReport | null;
    }
  /** `facts` is null when nothing came of it. */
  | { readonly kind: "polished"; readonly id: number; readonly facts: InferenceFacts | null }
  | GangAnswer;

export type JobCommand =
  /** Answered by `admission`. */
  | { readonly kind: "admit"; readonly entry: JobEntry }
  /** Answered by `told`. */
  | {
      readonly kind: "tell";
      readonly id: number;
      readonly fleetWorkflowId: string;
      readonly entry: InboxEntry;
      /** For the lobby in which the request has waited. */
      readonly exit?: LobbyExit;
    }
  /** Answered by `told`, like every message. */
  | { readonly kind: "leave-lobby"; readonly id: number; readonly exit: LobbyExit }
  | FollowersCommand
  /** Answered by `followed`. */
  | {
      readonly kind: "follow-jobs";
      readonly id: number;
      readonly jobs: readonly JobId[];
      /** Who is to be told; absent where they know it. */
      readonly follower?: JobId;
    }
  /** From now on people give orders to its tasks, before it is an array. */
  | { readonly kind: "hear-task-orders" }
  /** Says for lists why it waits before any fleet knows of it; null: it does not any more. */
  | { readonly kind: "waits"; readonly reason: PendingReason | null }
  /** Answered by `lease`. */
  | {
      readonly kind: "has-lease";
      readonly id: number;
      readonly fleetWorkflowId: string;
      readonly lease: LeaseId;
    }
  /** Answered by `forgotten`, or not at all. */
  | {
      readonly kind: "until-forgotten";
      readonly id: number;
      readonly fleetWorkflowId: string;
      readonly jobId: JobId;
    }
  /** Answered by `extras`. */
  | { readonly kind: "make-extras"; readonly id: number; readonly order: LaunchExtrasOrder }
  | { readonly kind: "cancel-extras"; readonly id: number }
  /** Answered by `polished`. */
  | { readonly kind: "polish-plan"; readonly id: number; readonly order: PolishOrder }
  | { readonly kind: "mark"; readonly mark: SearchMark }
  | { readonly kind: "memo"; readonly move: CellMemo }
  /** Keeps the signatures where hosts look for them. */
  | { readonly kind: "proofs"; readonly proofs: readonly string[] }
  | GangCommand;

/** Changes of the job's search attributes. */
export interface SearchMark {
  readonly state?: JobState;
  readonly fleet?: string;
  readonly home?: string;
  readonly class?: string;
  readonly tenant?: string;
  readonly gpus?: number;
  readonly clusters?: readonly string[];
}
