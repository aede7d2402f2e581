/**
 * @file When a fleet's run continues as new, and what it hands to the next run.
 *
 * The machine counts the most events and bytes that each of its commands and events can add to the history, because the length that the
 * server reports may read otherwise on replay. A run also ends after changes by operators, so that the input of a fleet's last
 * run has the newest description, but for those of its first seconds. Deliveries, audits and recoveries are short and finish in their own run.
 */

import type { FleetInput } from "../../protocol/fleet.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { carriedChain } from "./feed.ts";
import { isBounded, SIGNED_RULES } from "../../scheduling/ledger/ledger.ts";
import { isEmpty, takeAll, takeSlice } from "./inbox.ts";
import { tokenAfterLoss } from "../../scheduling/ledger/apply/ledger-recovery.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import {
  FLOODED_TURNS_RULES,
  OWN_TASK_RULES,
  SHORT_WORDS_RULES,
  SPACED_RUNS_RULES,
  upgradeLedger,
} from "../../scheduling/ledger/upgrade.ts";
import type { Clock } from "../machine.ts";
import { packNotified } from "./notices.ts";
import { fold, update, type FleetState, type FleetStep } from "./state.ts";
import { carriedWords, isAnyWaiting, type CarriedOn } from "./words.ts";

const CONTINUE_AT_EVENTS = 1_500;
/**
 * Past this many events the run ends even if deliveries are on their way; the next run delivers again. A worker that the server gives the run to, because another one
 * died or a task has failed, must have repeated it within one workflow task, however busy its machine is: that takes half a millisecond of processor time an event.
 */
const CONTINUE_AT_ANY_COST_EVENTS = 1_800;
/** The same before `OWN_TASK_RULES`. */
const FORMER_ANY_COST_EVENTS = 3_000;
const CONTINUE_AT_BYTES = 2 * 1024 * 1024;
/** From `SHORT_WORDS_RULES` on: past so many it ends even if deliveries are on their way, and whatever large words wait. */
const CONTINUE_AT_ANY_COST_BYTES = 4 * 1024 * 1024;
const BYTES_AN_EVENT = 500;
/**
 * From `BOUNDED_RULES` on. A worker that takes a run over repeats all of it within one workflow task, so a flood must not
 * make it longer than this: past the first bound the run takes no more requests, past the second it ends whatever it has not folded.
 */
const SHED_AT_BYTES = 12 * 1024 * 1024;
const SPENT_AT_BYTES = 16 * 1024 * 1024;
/** Before what was dropped is asked for again. */
const ASK_AFTER_MS = 1_000;
/** The same where large words alone were dropped, of which a stranger may say more to each run. */
const ASK_FOR_LARGE_AFTER_MS = 10_000;
/** How long a fleet that has lost its ledger, and whose run ends before all were asked, grants nothing: the asking goes on by itself. */
const QUIET_AFTER_END_MS = 30_000;

/** Events of history: one signal and the workflow task for it; a timer and its end; an activity and its end; a marker and its task; an update, its answer and its task. */
export const COST = {
  signal: 4,
  timer: 6,
  background: 8,
  decision: 4,
  order: 4,
  delivery: 6,
} as const;

/** Counts what something costs of the history at most, with the payload that it carries. */
export const spend = (step: FleetStep, events: number, payload?: unknown): FleetStep =>
  spendBytes(step, events, (JSON.stringify(payload) ?? "").length);

/** The same where the size of the payload is known. */
export function spendBytes(step: FleetStep, events: number, payloadBytes: number): FleetStep {
  const { spent } = step.state;
  const bytes = spent.bytes + BYTES_AN_EVENT + payloadBytes;
  return update(step, { spent: { events: spent.events + events, bytes } });
}

/** The same for what came; former rules count its value alone. */
export const spendArrival = (
  step: FleetStep,
  events: number,
  { bytes = 0, sideBytes = 0 }: { readonly bytes?: number; readonly sideBytes?: number },
): FleetStep => {
  const isSideCounted = step.state.ledger.applyVersion >= SPACED_RUNS_RULES;
  const spent = spendBytes(step, events, bytes + (isSideCounted ? sideBytes : 0));
  return update(spent, { arrived: spent.state.arrived + 1 });
};

export function mustContinue(state: FleetState): boolean {
  const { spent, deliveries, audits, recovery, estimates, isChangedByHand, isOfAge } = state;
  if (isSpent(state)) return true;
  // What has come is folded first: the input of the next run has no room for it.
  if (isAnyLeft(state)) return false;
  if (isHeavy(state) && state.repair === undefined) return true;
  if (state.isFlooded && spent.events < END_IN_A_FLOOD_EVENTS) return false;
  if (spent.events >= anyCostEvents(state)) return true;
  if (deliveries.underway.size > 0 || state.repair !== undefined) return false;
  const isBackgroundOver =
    audits.underway === undefined &&
    estimates.underway === undefined &&
    recovery.underway.length === 0;
  if (isChangedByHand && isOfAge && isBackgroundOver && recovery.quietUntilMs < Infinity)
    return true;
  return isLong(spent);
}

/**
 * Whether a run ends only in a task that its clock calls, as the first thing in it, with the words that came until then for the next run. The end of a local activity may come
 * before signals that the server has put into the same task: a run that ends there never hears them, and the server does not know. And while a local activity lasts signals
 * come, for which the server refuses the end, whereupon the worker repeats the whole run.
 */
export const endsInOwnTask = ({ ledger }: FleetState): boolean =>
  ledger.applyVersion >= OWN_TASK_RULES;

/**
 * Temporal begins a run at least a second after the one before it. Until then no signal wakes it; an order does, and where the run ends before that second is over, the next one waits for a
 * second more, and so on. Twice as long, so that what is left of such a delay passes.
 */
const CHANGED_RUN_MS = 2_000;

/** When a run that operators have changed may end. */
export const ofAgeAtMs = ({
  ledger,
  startedAtMs,
}: Pick<FleetState, "ledger" | "startedAtMs">): number =>
  ledger.applyVersion >= SPACED_RUNS_RULES ? startedAtMs + CHANGED_RUN_MS : 0;

const anyCostEvents = (state: FleetState): number =>
  endsInOwnTask(state) ? CONTINUE_AT_ANY_COST_EVENTS : FORMER_ANY_COST_EVENTS;

export const isHeavy = ({ ledger, spent }: FleetState): boolean =>
  ledger.applyVersion >= SHORT_WORDS_RULES && spent.bytes >= CONTINUE_AT_ANY_COST_BYTES;

const isLong = ({ events, bytes }: FleetState["spent"]): boolean =>
  events >= CONTINUE_AT_EVENTS || bytes >= CONTINUE_AT_BYTES;

/** Whether words alone have made a run long: a stranger may say so many to each that none would plan, if it ended before. */
export const isLongByWords = (state: FleetState): boolean =>
  hearsBetweenTurns(state) && isLong(state.spent) && state.spent.events < CONTINUE_AT_EVENTS;

/** Words that go along with a run that ends; where more have come it hears them first. */
const MOST_ALONG = 8;
/** Past this many events it ends with all that its input has room for, if words come slowly enough. */
const END_WITH_ANY_EVENTS = 2_400;
/** Faster, and the server refuses the end: the next task then waits behind all signals that are on their way. */
const CALM_WORDS_PER_MS = 0.05;
/**
 * Past this many it ends in any case, as soon as its clock rings: the server takes 10,000 signals for a run, of which each counts here. Were they used up, those of jobs and hosts would
 * be refused, too.
 */
const END_IN_A_FLOOD_EVENTS = 8_000;
/** The same before `FLOODED_TURNS_RULES`. */
const FORMER_FLOOD_EVENTS = 5_000;
/** More between two turns are a flood: while so many signals are on their way, the timer that would ring the run's clock waits behind them at the workflow's lock. */
const FLOOD_ARRIVALS = 32;
/** Before a long run looks again whether the flood is over. */
const FLOOD_LOOK_MS = 1_000;

/** Whether more has come since the last turn began than a run can end in. */
export const isFlood = ({ ledger, arrived }: FleetState): boolean =>
  ledger.applyVersion >= FLOODED_TURNS_RULES && arrived > FLOOD_ARRIVALS;

/** Whether a run that has set out to end gives that up, because its clock may not ring for long. A longer one keeps to it, and goes on as well where it cannot end with what has come. */
export const mustGoOn = (state: FleetState): boolean =>
  isFlood(state) &&
  !isSpent(state) &&
  !isHeavy(state) &&
  state.spent.events < END_IN_A_FLOOD_EVENTS;

/** When a run looks whether the flood is over that keeps it from its end. */
export const nextFloodLookAtMs = (state: FleetState, nowMs: number): number =>
  state.isFlooded && mayContinue(state) ? nowMs + FLOOD_LOOK_MS : Infinity;

/**
 * Whether a run whose clock has rung for its end ends now. Where much has come, the server would refuse its end for what comes meanwhile, and the worker would repeat the run. So that task hears it and
 * goes on as any other, and a later one, which is short, ends the run. A heavy run ends all the same: once an end was refused, the server admits no word while the next task lasts. `clock`: that rang.
 */
export function mayEnd(state: FleetState, nowMs: number, clock: Clock | undefined): boolean {
  if (isSpent(state)) return true;
  const count = state.words?.waiting.size ?? 0;
  const waitedMs = Math.max(1, nowMs - (clock?.atMs ?? nowMs));
  const isTime = count <= MOST_ALONG || isHeavy(state) || mayEndWith(state, count / waitedMs);
  if (!isTime || !mustContinue(state)) return false;
  const { left } = carriedWords(state.words, state.ledger);
  return left === "nothing" || (left === "large" && isHeavy(state));
}

/** Former rules did not look at how fast words come. */
function mayEndWith({ spent: { events }, ledger }: FleetState, wordsPerMs: number): boolean {
  const isCalm = ledger.applyVersion < SPACED_RUNS_RULES || wordsPerMs <= CALM_WORDS_PER_MS;
  if (isCalm) return events >= END_WITH_ANY_EVENTS;
  const isLate = ledger.applyVersion >= FLOODED_TURNS_RULES;
  return events >= (isLate ? END_IN_A_FLOOD_EVENTS : FORMER_FLOOD_EVENTS);
}

/** Whether it depends on what is under way alone if the run ends, so that it may end at one moment of a turn and not at the next. */
export const mayContinue = (state: FleetState): boolean =>
  state.isChangedByHand || isLong(state.spent);

/** Whether something has come for which the input of the next run has no room. */
export const isAnyLeft = (state: FleetState): boolean =>
  state.isBacklogged || state.held.size > 0 || (isAnyWaiting(state.words) && !endsInOwnTask(state));

/** Whether what comes in a turn is heard when the turn has ended, after which nothing is due but by the clock: on replay it may come then (docs/decisions/0014), and what a turn comes to depends on what is spent. */
export const hearsBetweenTurns = ({ ledger }: Pick<FleetState, "ledger">): boolean =>
  ledger.applyVersion >= SHORT_WORDS_RULES;

export const mustShed = ({ ledger, spent }: FleetState): boolean =>
  isBounded(ledger) && spent.bytes >= SHED_AT_BYTES;

export const isSpent = ({ ledger, spent }: FleetState): boolean =>
  isBounded(ledger) && spent.bytes >= SPENT_AT_BYTES;

/** Asks for the end of the updates under way; entries that come meanwhile still reach the next run. */
export function close(step: FleetStep): FleetStep {
  const { state, commands } = update(step, { phase: "closing", isEnding: false });
  return { state, commands: [...commands, { kind: "finish-handlers" }] };
}

export function continueAsNew(step: FleetStep, nowMs: number): FleetStep {
  const { state, commands } = update(step, { phase: "over" });
  const input = inputOf(state, nowMs);
  return { state, commands: [...commands, { kind: "continue-as-new", input }] };
}

/** Folds the entries that have come, as one event; with bounded intake, the oldest of them up to a slice. */
export function foldInbox(step: FleetStep, nowMs: number): FleetStep {
  const { inbox, ledger } = step.state;
  if (isEmpty(inbox)) return step;
  const { entries, junk, rest } = isBounded(ledger) ? takeSlice(inbox) : takeAll(inbox);
  const taken = update(step, { inbox: rest, isBacklogged: !isEmpty(rest) });
  return fold(taken, { kind: "inbox", entries, ...(junk.length > 0 && { junk }), nowMs });
}

/** Whether jobs and agents have said something that the next run will not know, beside words that it is handed. */
const areWordsLost = (state: FleetState): boolean =>
  state.isOverrun ||
  isAnyLeft(state) ||
  [...state.deliveries.underway.values()].some(({ held }) => held.length > 0);

/** Newer rules believe reports of unknown leases only while a lost ledger is rebuilt, which ledgers of the first rules do not say. */
const asLost = ({ ledger, recovery, nextRules }: FleetState): Ledger =>
  nextRules > ledger.applyVersion &&
  !isBounded(ledger) &&
  (recovery.quietUntilMs > 0 || recovery.recoverAtMs.length > 0)
    ? { ...ledger, recovery: { tokensBelow: tokenAfterLoss(ledger.nextToken) } }
    : ledger;

/** How long after this run those are asked whose words were lost; undefined where none were. */
function askAfterMs(state: FleetState, left: CarriedOn["left"]): number | undefined {
  if (areWordsLost(state) || left === "more") return ASK_AFTER_MS;
  return left === "large" ? ASK_FOR_LARGE_AFTER_MS : undefined;
}

/** From `SHORT_WORDS_RULES` on an earlier time does for both. */
function recoverTimes(
  { recovery: { recoverAtMs }, ledger }: FleetState,
  afterMs: number | undefined,
  nowMs: number,
): readonly number[] {
  const [firstAtMs = Infinity] = recoverAtMs;
  if (afterMs === undefined) return recoverAtMs;
  const askAtMs = nowMs + afterMs;
  if (hearsBetweenTurns({ ledger }) && firstAtMs <= askAtMs) return recoverAtMs;
  return [askAtMs, ...recoverAtMs].sort((a, b) => a - b);
}

/** Until when the next run grants nothing, because this one has lost its ledger. */
function quietUntil({ recovery: { quietUntilMs }, ledger }: FleetState, nowMs: number): number {
  if (!hearsBetweenTurns({ ledger })) return 0;
  return quietUntilMs === Infinity ? nowMs + QUIET_AFTER_END_MS : quietUntilMs;
}

/** With newer rules a fleet begins to ask for proof. */
const areWordsSignedNext = ({ words, nextRules, ledger }: FleetState): boolean =>
  words !== undefined || (nextRules >= SIGNED_RULES && nextRules > ledger.applyVersion);

/** The one place where a ledger goes to newer rules: between two runs, so that a run follows one version from its input on. */
function inputOf(state: FleetState, nowMs: number): FleetInput {
  const { name, nextRules, recovery, deliveries } = state;
  const ledger = upgradeLedger(asLost(state), nextRules);
  const chain = carriedChain(state);
  const { isReportDue } = recovery;
  // Under former rules a run has no words that wait, or loses them.
  const { words, left } = carriedWords(
    endsInOwnTask(state) ? state.words : undefined,
    state.ledger,
  );
  // Workers of a former release, which do not know them, may share a run of former rules.
  const isKnownNext = ledger.applyVersion >= SPACED_RUNS_RULES;
  const orderNumbers = isKnownNext ? (state.words?.orderNumbers ?? []) : [];
  const recoverAtMs = recoverTimes(state, askAfterMs(state, left), nowMs);
  const quietUntilMs = quietUntil(state, nowMs);
  return {
    name,
    rules: ledger.applyVersion,
    ledger: packLedger(ledger),
    ...(areWordsSignedNext(state) && { areWordsSigned: true }),
    ...(state.settledOrders.length > 0 && { settledOrders: state.settledOrders }),
    ...(orderNumbers.length > 0 && { orderNumbers }),
    ...(words.length > 0 && { words }),
    ...(chain && { chain }),
    ...(recoverAtMs.length > 0 && { recoverAtMs }),
    ...(quietUntilMs > nowMs && { quietUntilMs }),
    // A fleet that has lost its ledger asks for more than that anyway.
    ...((recovery.areWordsLost || recovery.recoverAtMs.length === 0) &&
      recoverAtMs.length > 0 && { areWordsLost: true }),
    ...(isReportDue && { isReportDue }),
    ...(isBounded(ledger)
      ? { notifiedCodes: packNotified(ledger, deliveries.notified) }
      : {
          notified: [...deliveries.notified].map(
            ([id, { code, atMs }]) => [id, code, atMs] as const,
          ),
        }),
  };
}
