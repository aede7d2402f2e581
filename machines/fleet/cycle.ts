/**
 * @file One scheduling cycle: hand the ledger to `decide`, then apply its plan.
 *
 * From the start of `decide` until the plan's grants are on their way nothing else changes the ledger, and one time serves for all
 * (docs/decisions/0014). The machine defers every other event until then.
 * From the rules of version 2 on the decider keeps the ledger, and is fed with the events since its last answer (event-chain.ts); one that
 * cannot follow says so, and gets the whole ledger in the same cycle. Before, it gets the whole ledger every time.
 */

import { MAX_PLAN_ITEMS, type Plan } from "../../domain/lease/plan.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { acknowledgeChain } from "../../scheduling/ledger/event-chain.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { COST, spend } from "./continue.ts";
import { mayAnyGrow, nextGrowthAtMs } from "./evictions.ts";
import { feedOf } from "./feed.ts";
import { afterCycle } from "./patience.ts";
import { fold, issue, update, type FleetStep } from "./state.ts";

/**
 * Pause before the next cycle when the ledger refused a part of the plan. Where decider and ledger disagree, as two versions of the code
 * might, no event would start a cycle; the pause keeps a lasting disagreement cheap.
 */
const REFUSED_RETRY_MS = 1_000;

/** Whether a cycle could have any effect. */
export const isAnyUnmet = (ledger: Ledger): boolean =>
  ledger.requests.size > 0 || mayAnyGrow(ledger);

/** A decider that may have followed so far is fed; otherwise it gets the whole ledger. */
export function startCycle(step: FleetStep, nowMs: number): FleetStep {
  const { cycle, nextId } = step.state;
  const underway = { id: nextId, nowMs };
  const begun = update(step, { cycle: { ...cycle, needsDecision: false, underway } });
  const feed = feedOf(begun.state);
  if (feed === undefined) return sendLedger(begun, nowMs);
  return issue(begun, (id) => ({ kind: "decide-next", id, feed, nowMs }));
}

/** The decider could not follow: it gets the whole ledger, for the same time. Ignores an answer that no cycle waits for. */
export function receiveStale(step: FleetStep, staleId: number): FleetStep {
  const { cycle, nextId } = step.state;
  const { underway } = cycle;
  if (underway?.id !== staleId) return step;
  const begun = update(step, { cycle: { ...cycle, underway: { ...underway, id: nextId } } });
  return sendLedger(spend(begun, COST.decision), underway.nowMs);
}

function sendLedger(step: FleetStep, nowMs: number): FleetStep {
  const { name, ledger, followed } = step.state;
  return issue(step, (id) => {
    return {
      kind: "decide",
      id,
      ledger: packLedger(ledger),
      nowMs,
      ...(followed && { keep: { fleet: name, hash: followed.chain.hash } }),
    };
  });
}

/** `nowMs`: the time for which the plan was made. */
export function applyPlan(
  step: FleetStep,
  { plan, answer }: { readonly plan: Plan; readonly answer?: string },
  nowMs: number,
): FleetStep {
  const folded = foldPlan(spend(step, COST.decision, plan), { plan, answer, nowMs });
  const { ledger, cycle, patience } = folded.state;
  // A full plan may have left some requests out.
  const isFull = plan.items.length >= MAX_PLAN_ITEMS;
  return update(folded, {
    cycle: {
      ...cycle,
      needsDecision: cycle.needsDecision || isFull,
      wakeAtMs: Math.min(
        nextGrowthAtMs(ledger, nowMs),
        plan.wakeAtMs ?? Infinity,
        folded.refusals.length > 0 ? nowMs + REFUSED_RETRY_MS : Infinity,
      ),
    },
    patience: afterCycle(patience, nowMs),
  });
}

/** A decider that has answered has the ledger, and the plan under the name of its answer. */
function foldPlan(
  step: FleetStep,
  { plan, answer, nowMs }: { plan: Plan; answer: string | undefined; nowMs: number },
): ReturnType<typeof fold> {
  const event = { kind: "plan", plan, nowMs } as const;
  const { followed } = step.state;
  if (followed === undefined || answer === undefined) return fold(step, event);
  const reached = update(step, {
    followed: { ...followed, chain: acknowledgeChain(followed.chain) },
  });
  return fold(reached, event, { kind: "plan-of", answer, nowMs });
}
