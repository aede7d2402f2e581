/**
 * @file The fleet's machine: one entity that owns the ledger and runs one scheduling cycle after another.
 *
 * Events only append or fold, and ask for a turn. A turn folds the inbox, lets the clocks ring, starts what is due in the background (audits,
 * recoveries, start estimates), and then either asks for a plan or posts at once. A plan that arrives is applied and posted in one step.
 * From the request for a plan until its grants are on their way nothing else changes the ledger, and one time serves for all
 * (docs/decisions/0014): other events are deferred, in their order. A turn comes after all events that arrived together, so their order
 * does not matter to the cycle.
 * The history grows by the cycle (11 events at most), not by the job; `continue.ts` ends the run in time.
 */

import { unpackLedger } from "../../scheduling/ledger/codec.ts";
import { isClocked } from "../../scheduling/ledger/ledger.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import type { WordVerdicts } from "../../protocol/word-proof.ts";
import { appended, inOrder } from "../../lib/chain.ts";
import type { Machine, Tick } from "../machine.ts";
import { hear, isArrival, take } from "./arrivals.ts";
import { endAudit, nextAuditAtMs, NOTHING_FOUND, startAudit } from "./audits.ts";
import {
  hearsBetweenTurns,
  close,
  continueAsNew,
  COST,
  foldInbox,
  isAnyLeft,
  endsInOwnTask,
  isFlood,
  isHeavy,
  isLongByWords,
  isSpent,
  mayEnd,
  mustContinue,
  mustGoOn,
  nextFloodLookAtMs,
  ofAgeAtMs,
  spend,
} from "./continue.ts";
import { applyPlan, isAnyUnmet, receiveStale, startCycle } from "./cycle.ts";
import { nextUnsentAtMs, NOTHING_ARRIVED, post, receiveReport } from "./deliveries.ts";
import { endEstimates, nextEstimatesAtMs, skipUnused, startEstimates } from "./estimates.ts";
import type { DeferrableEvent, FleetCommand, FleetEvent } from "./events.ts";
import { NOBODY_HELD } from "./held.ts";
import { EMPTY_INBOX, isEmpty, keepUnproven } from "./inbox.ts";
import { notifiedIn } from "./notices.ts";
import { nextLedgerClockAtMs, nextTimeAtMs } from "./next-time.ts";
import { applyOrder } from "./orders.ts";
import { afterClock, afterGap, FULL_PATIENCE, nextExpiryAtMs } from "./patience.ts";
import { endRecovery, startRecovery } from "./recovery.ts";
import { endRepair, NOTHING_DENIED, startRepair } from "./repairs.ts";
import { fold, issue, update, type FleetState, type FleetStep } from "./state.ts";
import { isAwake, isInTurn } from "./turns.ts";
import { isAboutOrder, checkOrder } from "./signed-orders.ts";
import { playAhead, turnAhead } from "./turn-ahead.ts";
import {
  asked,
  isAnyWaiting,
  mostAskedBytes,
  openWords,
  questionText,
  settled,
  type Question,
} from "./words.ts";

/** `startedAtMs`: when this run of the workflow began. */
export function openFleet(input: FleetInput, startedAtMs: number, nowMs: number): FleetState {
  const ledger = unpackLedger(input.ledger);
  return {
    name: input.name,
    startedAtMs,
    phase: "open",
    ledger,
    inbox: EMPTY_INBOX,
    words:
      input.areWordsSigned === true
        ? openWords({ workflowId: fleetWorkflowId(input.name), startedAtMs, ledger }, input)
        : undefined,
    ahead: undefined,
    settledOrders: input.settledOrders ?? [],
    isBacklogged: false,
    isEnding: false,
    arrived: 0,
    isFlooded: false,
    held: NOBODY_HELD,
    isOverrun: false,
    deferred: undefined,
    isTurnDue: true,
    clock: undefined,
    nextId: 1,
    cycle: { underway: undefined, needsDecision: isAnyUnmet(ledger), wakeAtMs: Infinity },
    deliveries: {
      underway: new Map(),
      redeliverAtMs: undefined,
      notified: notifiedIn(input, ledger, nowMs),
      orphaned: [],
      reported: new Set(),
    },
    audits: {
      underway: undefined,
      auditedAtMs: nowMs,
      auditedCount: 0,
      idleAtMs: nowMs,
      changedAtMs: nowMs,
    },
    recovery: {
      underway: [],
      quietUntilMs: input.isRecovering === true ? Infinity : (input.quietUntilMs ?? 0),
      recoverAtMs: input.recoverAtMs ?? [],
      areWordsLost: input.areWordsLost === true,
      isReportDue: input.isReportDue === true,
    },
    estimates: { underway: undefined, doneUpToMs: nowMs },
    patience: afterGap(FULL_PATIENCE, { fromMs: nowMs, toMs: input.quietUntilMs ?? 0 }),
    spent: { events: 0, bytes: 0 },
    repair: undefined,
    isChangedByHand: false,
    isOfAge: ofAgeAtMs({ ledger, startedAtMs }) <= nowMs,
    nextRules: ledger.applyVersion,
  };
}

export const fleetMachine: Machine<FleetState, FleetEvent, FleetCommand> = {
  step,
  dueAtMs,
  clockOf: ({ clock }) => clock,
};

function step(state: FleetState, event: FleetEvent | Tick, nowMs: number): FleetStep {
  const begun: FleetStep = { state, commands: [] };
  if (state.phase === "over") return begun;
  if (isArrival(event))
    return isInTurn(state) && hearsBetweenTurns(state)
      ? update(begun, { deferred: appended(state.deferred, event) })
      : take(begun, event);
  if (event.kind === "checked") return hearChecked(begun, event, nowMs);
  if (event.kind === "decided") return endCycle(begun, event, nowMs);
  if (event.kind === "stale") return receiveStale(begun, event.id);
  if (event.kind === "tick") return isAwake(state) ? turn(begun, nowMs) : begun;
  if (isInTurn(state)) return update(begun, { deferred: appended(state.deferred, event) });
  return receive(begun, event, nowMs);
}

/** What had to wait for the end of a turn. */
const letIn = (begun: FleetStep, deferred: FleetState["deferred"], nowMs: number): FleetStep =>
  inOrder(deferred).reduce(
    (reached, event) => (isArrival(event) ? take(reached, event) : receive(reached, event, nowMs)),
    begun,
  );

function dueAtMs(state: FleetState): number {
  if (!isAwake(state)) return Infinity;
  // What comes after a heavy run's last turn has a task of its own, as good as the clock's.
  if (isHeavy(state) && state.isEnding && state.arrived > 0) return 0;
  if (state.isBacklogged || (state.isEnding && !mustGoOn(state))) return state.clock?.atMs ?? 0;
  if (!isEmpty(state.inbox) || isAnyWaiting(state.words) || state.isTurnDue) return 0;
  if (mustContinue(state)) return 0;
  if (isClocked(state.ledger)) return state.clock?.atMs ?? Infinity;
  return Math.min(nextUnsentAtMs(state), nextTimeAtMs(state));
}

function turn(begun: FleetStep, nowMs: number): FleetStep {
  const woken = wake(begun, nowMs);
  // Not if what came meanwhile has to be over first, like a repair.
  if (begun.state.isEnding && mayEnd(woken.state, nowMs, begun.state.clock)) return close(woken);
  const { words } = woken.state;
  if (words === undefined || !isAnyWaiting(words)) return goOn(foldInbox(woken, nowMs), nowMs);
  const { nextId: id, ledger } = woken.state;
  const questioned = asked(words, { id, nowMs, mostBytes: mostAskedBytes(ledger) });
  const list = questioned.question?.words ?? [];
  const spent = update(spend(woken, COST.decision), { words: questioned });
  const { step, question } = playAhead(spent, goOnProven);
  return issue(step, (id) => ({
    ...{ kind: "check", id, ...questionText(words, list) },
    ...(question !== undefined && { ahead: question }),
  }));
}

/** The turn goes on with what is proven. Ignores verdicts that no turn waits for. */
function hearChecked(
  begun: FleetStep,
  { id, verdicts, ahead }: Extract<FleetEvent, { kind: "checked" }>,
  nowMs: number,
): FleetStep {
  const { words, deferred } = begun.state;
  const question = words?.question;
  if (question?.id !== id) return begun;
  const gone = turnAhead(begun, verdicts) ?? goOnProven(begun, question, verdicts);
  if (!isInTurn(gone.state)) return letIn(gone, deferred, nowMs);
  const asked = update(gone, { deferred });
  const last = asked.commands.at(-1);
  if (ahead === undefined || last?.kind !== "decide-next" || last.feed.hash !== ahead.hash)
    return asked;
  const answered = { state: asked.state, commands: asked.commands.slice(0, -1) };
  const { decision } = ahead;
  return decision.kind === "stale"
    ? receiveStale(answered, last.id)
    : endCycle(answered, { ...decision, kind: "decided", id: last.id }, nowMs);
}

function goOnProven(begun: FleetStep, question: Question, verdicts: WordVerdicts): FleetStep {
  const { words } = begun.state;
  if (words === undefined) return begun;
  const { words: rest, all } = settled(words, question, verdicts);
  const answered = spend(begun, 0, verdicts);
  let heard = update(answered, { words: rest, deferred: undefined, ahead: undefined });
  for (const checked of all) {
    const { word, heard: brought, refusal } = checked;
    if (isAboutOrder(checked)) {
      const { step: settled, order } = checkOrder(heard, checked.word, refusal);
      heard =
        order === undefined ? settled : receive(settled, { kind: "order", order }, question.nowMs);
      continue;
    }
    if (brought !== undefined) heard = hear(heard, brought);
    if (refusal !== undefined)
      heard = update(heard, { inbox: keepUnproven(heard.state.inbox, word, refusal) });
  }
  const folded = foldInbox(heard, question.nowMs);
  const isBacklogged = folded.state.isBacklogged || question.hasMore;
  // What these orders have changed is looked at in this very turn.
  const isTurnDue = folded.state.isTurnDue && !hearsBetweenTurns(folded.state);
  return goOn(update(folded, { isBacklogged, isTurnDue }), question.nowMs);
}

function goOn(folded: FleetStep, nowMs: number): FleetStep {
  const woken = lookAtClocks(folded, nowMs);
  const isLast = mustContinue(woken.state) && !woken.state.isEnding;
  const plansFirst = isHeavy(woken.state) || isLongByWords(woken.state);
  if (isLast && !plansFirst)
    return endsInOwnTask(woken.state)
      ? rest(update(woken, { isEnding: true }), nowMs)
      : close(woken);
  const ready = forgetVainDecision(woken);
  const started = isLast || isHeavy(ready.state) ? ready : startBackground(ready, nowMs);
  const { cycle, recovery } = started.state;
  if (cycle.needsDecision && recovery.quietUntilMs <= nowMs) return startCycle(started, nowMs);
  return rest(post(started, nowMs), nowMs);
}

function wake(begun: FleetStep, nowMs: number): FleetStep {
  const { patience, clock } = begun.state;
  const isFlooded = isFlood(begun.state);
  const woken = update(spend(begun, COST.timer), {
    isTurnDue: false,
    isBacklogged: false,
    isEnding: begun.state.isEnding && !mustGoOn(begun.state) && mustContinue(begun.state),
    isFlooded,
    arrived: 0,
    clock: undefined,
    isOfAge: ofAgeAtMs(begun.state) <= nowMs,
    patience: afterClock(patience, clock?.atMs ?? Infinity, nowMs),
  });
  return skipUnused(woken, nowMs);
}

function lookAtClocks(woken: FleetStep, nowMs: number): FleetStep {
  const looked =
    nextLedgerClockAtMs(woken.state) <= nowMs ? fold(woken, { kind: "clock", nowMs }) : woken;
  const { ledger, cycle, patience } = looked.state;
  const isTime = cycle.wakeAtMs <= nowMs || nextExpiryAtMs(patience, ledger) <= nowMs;
  if (!isTime) return looked;
  return update(looked, { cycle: { ...cycle, needsDecision: true, wakeAtMs: Infinity } });
}

/** No cycle for a ledger in which no job lacks anything. */
function forgetVainDecision(woken: FleetStep): FleetStep {
  const { ledger, cycle } = woken.state;
  if (isAnyUnmet(ledger)) return woken;
  return update(woken, { cycle: { ...cycle, needsDecision: false, wakeAtMs: Infinity } });
}

function startBackground(woken: FleetStep, nowMs: number): FleetStep {
  const audited = nextAuditAtMs(woken.state) <= nowMs ? startAudit(woken) : woken;
  const estimated = nextEstimatesAtMs(audited.state) <= nowMs ? startEstimates(audited) : audited;
  return startRecovery(estimated, nowMs);
}

/** Applies the plan, posts, and only then lets in what came meanwhile. Ignores a plan that no cycle waits for. */
function endCycle(
  begun: FleetStep,
  { id, ...decided }: Extract<FleetEvent, { kind: "decided" }>,
  nowMs: number,
): FleetStep {
  const { cycle, deferred } = begun.state;
  const { underway } = cycle;
  if (underway?.id !== id) return begun;
  const opened = update(begun, { cycle: { ...cycle, underway: undefined }, deferred: undefined });
  const posted = post(applyPlan(opened, decided, underway.nowMs), underway.nowMs);
  const rested = rest(posted, underway.nowMs);
  return letIn(rested, deferred, nowMs);
}

/**
 * Sets the clock, whether or not something else makes a turn due at once: on replay that may come later, and the timers have to be the
 * same. The next turn sees whether the clock rang late.
 */
function rest(done: FleetStep, nowMs: number): FleetStep {
  // The timer ends the activation, so that queries and other workflows have their turn before the next slice, or the run its end.
  const { isBacklogged, isChangedByHand, isOfAge } = done.state;
  const isEnding =
    done.state.isEnding || (hearsBetweenTurns(done.state) && mustContinue(done.state));
  const endAtMs = isChangedByHand && !isOfAge ? ofAgeAtMs(done.state) : Infinity;
  const lookAtMs = Math.min(endAtMs, nextFloodLookAtMs(done.state, nowMs));
  const nextMs = isBacklogged || isEnding ? nowMs : Math.min(nextTimeAtMs(done.state), lookAtMs);
  if (nextMs === Infinity) return update(done, { clock: undefined });
  const atMs = Math.max(nowMs + 1, nextMs);
  return update(done, {
    isEnding,
    clock: isClocked(done.state.ledger) ? { atMs, isAlone: true } : { atMs },
  });
}

/** Between cycles. */
function receive(begun: FleetStep, event: DeferrableEvent, nowMs: number): FleetStep {
  switch (event.kind) {
    case "order":
      return event.order.kind === "repair"
        ? startRepair(begun, event.order)
        : applyOrder(begun, event.order, nowMs);
    case "delivered":
      return calledEarlier(receiveReport(begun, event, nowMs));
    case "audited":
      return endAudit(begun, event, nowMs);
    case "estimated":
      return endEstimates(begun, event, nowMs);
    case "recovered":
      return endRecovery(begun, event.id, nowMs);
    case "repaired":
      return endRepair(begun, event, nowMs);
    case "failed":
      return receiveFailure(begun, event.id, nowMs);
    case "handlers-finished":
      return begun.state.phase === "closing" ? endRun(begun, nowMs) : begun;
  }
}

/**
 * A report asks for a turn, too, where it makes anything due before the clock rings: an order to give up a lease leaves only once its grant has arrived,
 * and each change of the ledger may bring an audit forward.
 */
function calledEarlier(reported: FleetStep): FleetStep {
  const { state } = reported;
  const rings = state.clock?.atMs ?? Infinity;
  const isEarlier =
    !state.isTurnDue && Math.min(nextUnsentAtMs(state), nextTimeAtMs(state)) < rings;
  return isEarlier ? update(reported, { isTurnDue: true }) : reported;
}

/** Unless more has come meanwhile than one slice holds: then the run goes on until that is folded, if it may. */
function endRun(begun: FleetStep, nowMs: number): FleetStep {
  const folded = foldInbox(begun, nowMs);
  if (!isAnyLeft(folded.state) || isSpent(folded.state)) return continueAsNew(folded, nowMs);
  // Nobody else may call the turn that sends what is held back.
  const isTurnDue = folded.state.isTurnDue || isClocked(folded.state.ledger);
  return rest(update(folded, { phase: "open", isTurnDue }), nowMs);
}

/** What an activity gave up comes again by its own clock. */
function receiveFailure(begun: FleetStep, id: number, nowMs: number): FleetStep {
  const { audits, estimates, recovery, repair } = begun.state;
  if (repair?.id === id) return endRepair(begun, { id, report: NOTHING_DENIED }, nowMs);
  if (audits.underway === id) return endAudit(begun, { id, report: NOTHING_FOUND }, nowMs);
  if (estimates.underway === id) return endEstimates(begun, { id }, nowMs);
  if (recovery.underway.includes(id)) return endRecovery(begun, id, nowMs);
  return receiveReport(begun, { id, report: NOTHING_ARRIVED }, nowMs);
}
