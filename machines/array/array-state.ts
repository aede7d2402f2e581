/**
 * @file The state of a job array, the events that change it and the commands that it gives.
 *
 * Leases live each for itself (held-lease.ts); the request lane speaks to the fleet for all of them (array-requests.ts); the tasks are one table.
 */

import type { ArrayRule, JobSpec } from "../../domain/job/job.ts";
import type { AgentAddress, InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { LobbyExit } from "../../protocol/lobby-contract.ts";
import type { LobbyCall } from "../../protocol/lobby.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { HostId, JobId, LeaseId, RunId, TenantId } from "../../domain/values/ids.ts";
import type { StopTasksOrder } from "../../protocol/agent-contract.ts";
import type { NotifyResult } from "../../protocol/control-contract.ts";
import type { ArrayMemo, JobState, TaskOrder } from "../../protocol/job.ts";
import type { GangCommand } from "../gang/gang-commands.ts";
import type { GangAnswer, StopReason } from "../gang/gang-state.ts";
import type { GivenUp, Pause } from "../../protocol/job-orders.ts";
import type { AmendedSoFar, JobCommand, JobOutcome, SearchMark } from "../job/job-state.ts";
import type { PredecessorView } from "../../protocol/predecessors.ts";
import type { Followers, FollowersCommand } from "../job/followers.ts";
import type { Step } from "../machine.ts";
import type { HeldLease, HeldLeases, LeaseWork } from "./held-lease.ts";
import type { TaskTable } from "./task-table.ts";

/** What never changes in one run of the workflow. */
interface ArrayIdentity {
  /** The version of the job's logic, see `JOB_RULES`. */
  readonly rules: number;
  readonly jobId: JobId;
  readonly runId: RunId;
  readonly fleet: string;
  readonly spec: JobSpec;
  readonly rule: ArrayRule;
  readonly submittedAtMs: number;
  /** The jobs that it has waited for. */
  readonly after?: readonly PredecessorView[];
  /** When all of those had come; its age at the fleet counts from then. */
  readonly eligibleAtMs?: number;
}

/** The job whose file describes an array, as far as it has got when its tasks begin. */
export interface ArrayEntry extends ArrayIdentity {
  /** The answer to the request with which it entered. */
  readonly entered: NotifyResult;
  /** As orders have left them while it waited for other jobs; all that are to run when absent. */
  readonly tasks?: TaskTable;
  readonly isHeld: boolean;
  readonly pause?: Pause;
  /** The fleet has asked what the job holds; `askedRun`: as which run. */
  readonly isAsked: boolean;
  readonly askedRun?: RunId;
  readonly reason?: StopReason;
  readonly isKilled?: true;
  readonly marks: number;
  readonly followers: Followers;
  readonly amended: AmendedSoFar;
  /** Signals that said nothing. */
  readonly junkSignals: number;
  /** What the fleet has said before the file was read. */
  readonly earlyGrants?: readonly unknown[];
  readonly call?: LobbyCall;
}

export interface JobArray extends ArrayIdentity {
  readonly phase: ArrayPhase;
  readonly tasks: TaskTable;
  /** In order of their grants. */
  readonly leases: HeldLeases;
  /** Grants that came since the last tick. Orders about their leases may have come, too. */
  readonly arrivals: HeldLeases;
  /** Every lease that ever came: a second copy of a grant starts nothing. */
  readonly seen: ReadonlySet<LeaseId>;
  readonly requests: RequestLane;
  /** Messages about leases that the fleet has not confirmed yet, by the ids of their commands. */
  readonly unconfirmed: ReadonlySet<number>;
  readonly isHeld: boolean;
  readonly pause?: Pause;
  readonly amended: AmendedSoFar;
  /** The tenants of its requests up to these numbers, in their order. */
  readonly tenantsBefore?: readonly { readonly upTo: number; readonly tenant: TenantId }[];
  readonly followers: Followers;
  readonly reason?: StopReason;
  /** Whatever is stopped of it is killed at once. */
  readonly isKilled?: true;
  /** Running tasks that are to end, and are not started again. */
  readonly unwanted: ReadonlySet<number>;
  /** Orders to stop tasks that are given after a pause, one for each host of a lease at most. */
  readonly stopsAgain: readonly (FailedStop & { readonly untilMs: number })[];
  /** Tasks that wait again after a pause. */
  readonly pauses: readonly TaskPause[];
  /** Batches in a row of which hosts lost tasks. */
  readonly lostInARow: number;
  /** Batches that have begun. */
  readonly batches: number;
  /** Tasks that ran to an end, and how long all of them took. */
  readonly ran: { readonly tasks: number; readonly ms: number };
  /** Hosts of all leases so far. */
  readonly hosts: ReadonlySet<HostId>;
  /** Hosts that have not confirmed the end of a lease. */
  readonly unconfirmedHosts: ReadonlySet<HostId>;
  readonly firstGrantAtMs?: number;
  /** Leases that were given up for other jobs. */
  readonly preemptions: number;
  /** Tasks that had ended at the last change of the memo. */
  readonly memoAt: number;
  /** Changes of the job's search attributes so far. */
  readonly marks: number;
  /** Commands with numbers so far. */
  readonly commandCount: number;
  /** Signals that said nothing. */
  readonly junkSignals: number;
  /** Something has happened that it has not acted on yet. */
  readonly isStirred: boolean;
}

type ArrayPhase =
  | { readonly kind: "open" }
  /** Its last request is still on its way to the fleet. */
  | { readonly kind: "closing" }
  /** The fleet is being told that the job is over; `isDelivered`: it knows. */
  | { readonly kind: "ending"; readonly id: number; readonly isDelivered?: true }
  | { readonly kind: "over"; readonly state: JobState; readonly outcome: JobOutcome };

interface TaskPause {
  readonly untilMs: number;
  readonly tasks: readonly number[];
}

/** An order to stop tasks that its host did not carry out. `attempt` counts the orders. */
export interface FailedStop {
  readonly leaseId: LeaseId;
  readonly host: HostId;
  readonly batchSeq: number;
  readonly attempt: number;
}

/** What the array asks its fleet for. One request or assertion is on its way at a time. */
export interface RequestLane {
  /** Number of the newest request. */
  readonly seq: number;
  /** Slots that the fleet has been asked for and has not granted. */
  readonly asked: number;
  readonly askedAtMs: number;
  /** Why the fleet grants no more, as far as the array was told. */
  readonly pending?: PendingReason;
  /** The fleet has lost its ledger, or doubts it, and wants to hear what the array has. */
  readonly isAsked: boolean;
  /** Leases that it has told its fleet of, in that order. */
  readonly asserted: ReadonlySet<LeaseId>;
  /** The run that the last question named. */
  readonly askedRun?: RunId;
  /** More than the slots has changed since the last request. */
  readonly isOutdated: boolean;
  /** The lobby of a former tenant, which is to forget the request that the next one replaces. */
  readonly leaving?: LobbyExit;
  /** The highest request that was ended with all its leases; a late grant for it, or for one before it, is stale. */
  readonly endedUpTo: number;
  /** Hosts that refused. */
  readonly avoidHosts: readonly HostId[];
  readonly noFleetPauses: number;
  /** A call from the lobby that it has not answered yet. */
  readonly call?: LobbyCall;
  /** The credit of the last call that it followed. */
  readonly usedCredit?: number;
  readonly doing:
    | { readonly kind: "nothing" }
    | { readonly kind: "requesting"; readonly id: number }
    | {
        readonly kind: "asserting";
        readonly id: number;
        readonly lease: LeaseId;
        readonly rest: readonly LeaseId[];
      }
    | { readonly kind: "pausing"; readonly untilMs: number };
}

export type ArrayEvent =
  /** Signals of the fleet are checked here: their payloads may be junk. */
  | { readonly kind: "grants"; readonly offers: unknown }
  | { readonly kind: "pending"; readonly note: unknown }
  | { readonly kind: "preempt"; readonly order: unknown }
  | { readonly kind: "fenced"; readonly loss: unknown }
  | { readonly kind: "assert"; readonly question?: unknown }
  | { readonly kind: "follow"; readonly note: unknown }
  | { readonly kind: "call-in"; readonly call: unknown }
  /** A signal of a name that nobody sends. */
  | { readonly kind: "junk" }
  /** Orders of people; what they say of themselves may be junk. */
  | { readonly kind: "hold"; readonly order?: unknown }
  | { readonly kind: "release" }
  | { readonly kind: Exclude<GivenUp["kind"], "move">; readonly order: unknown }
  | { readonly kind: "amend"; readonly order: unknown }
  /** An order that task-orders.ts does not refuse, and whose answer it gives beforehand. */
  | { readonly kind: "cancel-tasks"; readonly order: TaskOrder }
  | { readonly kind: "retry-tasks"; readonly order: TaskOrder }
  | { readonly kind: "cancel" }
  | { readonly kind: "kill" }
  | { readonly kind: "told"; readonly id: number; readonly result: NotifyResult }
  /** `doWait` is false where the fleet did not answer. */
  | { readonly kind: "others-wait"; readonly id: number; readonly doWait: boolean }
  | { readonly kind: "stop-failed"; readonly stop: FailedStop }
  | { readonly kind: "gang"; readonly lease: LeaseId; readonly answer: GangAnswer };

export type ArrayCommand =
  /** Answered by `told`. */
  | {
      readonly kind: "tell";
      readonly id: number;
      readonly fleetWorkflowId: string;
      readonly entry: InboxEntry;
      /** For the lobby in which its request has waited. */
      readonly exit?: LobbyExit;
    }
  /** Answered by `told`. */
  | { readonly kind: "leave-lobby"; readonly id: number; readonly exit: LobbyExit }
  /** Asks whether others wait for GPUs that leases hold; answered by `others-wait`. */
  | {
      readonly kind: "ask-others";
      readonly id: number;
      readonly fleetWorkflowId: string;
      readonly jobId: JobId;
    }
  /** Answered by `stop-failed` where the host did not carry it out. */
  | {
      readonly kind: "stop-tasks";
      readonly agent: AgentAddress;
      readonly order: StopTasksOrder;
      readonly attempt: number;
      readonly summary: string;
      readonly startToCloseMs: number;
    }
  /** Answered by `gang` where the gang's command is answered. */
  | { readonly kind: "gang"; readonly lease: LeaseId; readonly command: GangCommand }
  | FollowersCommand
  | { readonly kind: "mark"; readonly mark: SearchMark }
  | Extract<JobCommand, { readonly kind: "proofs" }>
  | { readonly kind: "memo"; readonly memo: ArrayMemo };

export type ArrayStep = Step<JobArray, ArrayCommand>;

export const liveSlots = ({ leases }: JobArray): number =>
  [...leases.values()].reduce((sum, { slots }) => sum + slots, 0);

/** Slots beyond those at hand that would have work now. */
export function wantedSlots(array: JobArray): number {
  const { reason, isHeld, rule, tasks } = array;
  if (reason !== undefined || isHeld) return 0;
  return Math.max(0, Math.min(rule.parallel - liveSlots(array), tasks.available));
}

export const changeRequests = (array: JobArray, change: Partial<RequestLane>): JobArray => ({
  ...array,
  requests: { ...array.requests, ...change },
});

export const changeLease = (array: JobArray, held: HeldLease): JobArray => ({
  ...array,
  leases: new Map([...array.leases, [held.grant.lease.id, held]]),
});

export const enterWork = (array: JobArray, held: HeldLease, work: LeaseWork): JobArray =>
  changeLease(array, { ...held, work });

/** The commands of the gang that runs on this lease. */
export const ofGang = (
  { grant }: HeldLease,
  commands: readonly GangCommand[],
): readonly ArrayCommand[] =>
  commands.map((command) => ({ kind: "gang", lease: grant.lease.id, command }));

/** The number of the next command that has one. */
export function nextId(array: JobArray): { readonly id: number; readonly array: JobArray } {
  const id = array.commandCount + 1;
  return { id, array: { ...array, commandCount: id } };
}
