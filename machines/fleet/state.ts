/**
 * @file The state of a fleet's machine, a step in the making, and the one way in which the ledger changes.
 *
 * Each part of the state belongs to the file of the same name, which alone changes it. Times are in milliseconds since the epoch;
 * infinite means never.
 */

import type { JobId, LeaseId, TenantId } from "../../domain/values/ids.ts";
import type { LeaseFact, RequestKey } from "../../domain/lease/lease.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import {
  extendChain,
  type ChainLink,
  type EventChain,
} from "../../scheduling/ledger/event-chain.ts";
import type { OutsideRow } from "../../scheduling/ledger/intake.ts";
import type { Ledger, LedgerEvent, Refusal } from "../../scheduling/ledger/ledger.ts";
import type { Chain } from "../../lib/chain.ts";
import type { SettledOrder } from "../../protocol/fleet.ts";
import type { RepairChoice } from "../../protocol/repair.ts";
import type { Clock, Step } from "../machine.ts";
import type { Arrival, DeferrableEvent, FleetCommand } from "./events.ts";
import { holdBack, type Held } from "./held.ts";
import type { Inbox } from "./inbox.ts";
import type { Notified } from "./notices.ts";
import type { Patience } from "./patience.ts";
import type { Words } from "./words.ts";

export interface FleetState {
  readonly name: string;
  /** When this run of the workflow began. */
  readonly startedAtMs: number;
  /** `closing`: the run ends once its updates have been answered. `over`: the next run has its input. */
  readonly phase: "open" | "closing" | "over";
  readonly ledger: Ledger;
  readonly inbox: Inbox;
  /** What has come and is not proven yet; undefined of a fleet that believes all that it is told. */
  readonly words: Words | undefined;
  /** How the turn ends if all words pass whose proof is being looked at; undefined where it is played when they have. */
  readonly ahead: TurnAhead | undefined;
  /** What became of the last orders that needed proof. */
  readonly settledOrders: readonly SettledOrder[];
  /** The last turn has left a part of the inbox to the next one, which its clock calls: the thread is free meanwhile. */
  readonly isBacklogged: boolean;
  /** The run is to end: its clock alone begins the next turn, which ends it if `mayEnd` says so. */
  readonly isEnding: boolean;
  /** Signals and orders that have come since the last turn began. */
  readonly arrived: number;
  /** So many had come before the last turn that the server would refuse the run's end. From `FLOODED_TURNS_RULES` on. */
  readonly isFlooded: boolean;
  /** Requests that wait outside and of which lobbies hear without the ledger. */
  readonly held: Held;
  /** Words were dropped, because more came than a run may hold: jobs and agents are to be asked for them. */
  readonly isOverrun: boolean;
  /** Events that wait until the plan in the making has been applied and its grants are on their way; empty between cycles. Arrivals among them from `SHORT_WORDS_RULES` on. */
  readonly deferred: Chain<DeferrableEvent | Arrival> | undefined;
  /** Something has changed since the last turn. */
  readonly isTurnDue: boolean;
  /** Set when the last turn came to rest; undefined in a cycle, or when time alone changes nothing. */
  readonly clock: Clock | undefined;
  /** The id of the next command. */
  readonly nextId: number;
  readonly cycle: CycleState;
  /** By which a decider follows the ledger; absent where it gets the whole ledger every time. */
  readonly followed?: Followed;
  readonly deliveries: DeliveriesState;
  readonly audits: AuditsState;
  readonly recovery: RecoveryState;
  readonly estimates: EstimatesState;
  readonly patience: Patience;
  readonly spent: Spent;
  /** The repair that is looked into, under the id of its command. */
  readonly repair: (RepairChoice & { readonly id: number }) | undefined;
  /** An operator has changed something that the input of the next run must know. */
  readonly isChangedByHand: boolean;
  /** As of its last turn, the run is old enough to end for that. */
  readonly isOfAge: boolean;
  /** The version of the rules that the next run follows. */
  readonly nextRules: number;
}

interface TurnAhead {
  /** With these it was played. */
  readonly inbox: Inbox;
  readonly spent: Spent;
  readonly end: FleetStep;
}

interface CycleState {
  /** The plan in the making, with the time for which it is made. */
  readonly underway: { readonly id: number; readonly nowMs: number } | undefined;
  readonly needsDecision: boolean;
  /** When time alone may change the plan. */
  readonly wakeAtMs: number;
}

/** The chain of events of this run. */
export interface Followed {
  readonly run: string;
  readonly chain: EventChain;
}

export interface DeliveriesState {
  /** Which leases' grants and evictions each open delivery carries. */
  readonly underway: ReadonlyMap<number, Parcel>;
  /** No delivery leaves before: the last one did not reach everybody. Undefined when it did. */
  readonly redeliverAtMs: number | undefined;
  /** The last notice to each waiting job. */
  readonly notified: ReadonlyMap<JobId, Notified>;
  /** Leases that jobs claim and that cannot be theirs any more; their jobs have yet to hear of it. */
  readonly orphaned: readonly LeaseFact[];
  /** Losses and sweeps that were sent since the last audit. */
  readonly reported: ReadonlySet<string>;
}

/** What one delivery carries. */
export interface Parcel {
  readonly grants: readonly LeaseId[];
  readonly evictions: readonly LeaseId[];
  readonly lobbies: readonly LobbyParcel[];
  /** Rows that the ledger does not have. */
  readonly held: readonly OutsideRow[];
}

/** What a delivery brings to one lobby. */
export interface LobbyParcel {
  readonly tenant: TenantId;
  readonly rows: readonly RequestKey[];
  readonly credits: readonly number[];
}

interface AuditsState {
  readonly underway: number | undefined;
  readonly auditedAtMs: number;
  /** How many holders were audited so far. */
  readonly auditedCount: number;
  /** When the fleet last held nothing and nothing waited. */
  readonly idleAtMs: number;
  /** When the ledger last changed. */
  readonly changedAtMs: number;
}

interface RecoveryState {
  readonly underway: readonly number[];
  /** Nothing is granted before: a lost ledger is being rebuilt. Infinite until the first answers. */
  readonly quietUntilMs: number;
  /** When agents and jobs are to be asked, ascending. More than once, because a job that had just started may not have been visible. */
  readonly recoverAtMs: readonly number[];
  /** They are asked for words that a flooded run dropped; the ledger is whole. */
  readonly areWordsLost: boolean;
  /** The terms of agents may have changed: they are to report again. The next run sees to it. */
  readonly isReportDue: boolean;
}

interface EstimatesState {
  readonly underway: number | undefined;
  /** The times of the grid up to here have been used, or have passed unused. */
  readonly doneUpToMs: number;
}

/** The most that this run can have added to its history. */
interface Spent {
  readonly events: number;
  readonly bytes: number;
}

/** A step in the making: the parts of the machine pass it on, each with its changes and its commands. */
export type FleetStep = Step<FleetState, FleetCommand>;

export const update = (
  { state, commands }: FleetStep,
  changes: Partial<FleetState>,
): FleetStep => ({
  state: { ...state, ...changes },
  commands,
});

/** Gives a command that will be answered, under the next id. */
export function issue(step: FleetStep, commandOf: (id: number) => FleetCommand): FleetStep {
  const { nextId: id } = step.state;
  const { state, commands } = update(step, { nextId: id + 1 });
  return { state, commands: [...commands, commandOf(id)] };
}

interface Folded extends FleetStep {
  readonly refusals: readonly Refusal[];
}

/** Applies an event to the ledger and notes what follows from it. `link`: the event as the chain has it. */
export function fold(step: FleetStep, event: LedgerEvent, link: ChainLink = event): Folded {
  const { ledger: before, audits, cycle, deliveries, followed } = step.state;
  const { ledger, refusals, needsDecision, orphaned, held } = apply(before, event);
  const { state, commands } = update(step, {
    ledger,
    ...(followed && { followed: { ...followed, chain: extendChain(followed.chain, link) } }),
    ...(held.length > 0 && heldAfter(step.state, held, ledger)),
    cycle: { ...cycle, needsDecision: cycle.needsDecision || needsDecision },
    deliveries: { ...deliveries, orphaned: [...deliveries.orphaned, ...orphaned] },
    audits: {
      ...audits,
      ...(ledger !== before && { changedAtMs: event.nowMs }),
      ...(isIdle(ledger) && { idleAtMs: event.nowMs }),
    },
  });
  return { state, commands: [...commands, { kind: "record", event }], refusals };
}

function heldAfter(
  { held: before }: Pick<FleetState, "held">,
  requests: Parameters<typeof holdBack>[1],
  ledger: Ledger,
): Partial<FleetState> {
  const held = holdBack(before, requests, ledger);
  return held === undefined ? { isOverrun: true } : { held };
}

/** Whether nothing is held and nothing waits. */
export const isIdle = ({ leases, requests }: Ledger): boolean =>
  leases.size === 0 && requests.size === 0;
