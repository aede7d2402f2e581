/**
 * @file When a fleet estimates the starts of its waiting jobs: at the times of a fixed grid, one estimate at a time.
 *
 * A time of the grid that passes while no job waits is lost. Were it made up for, the first job of every queue would trigger an estimate,
 * and the fleet would only learn about the beginnings of queues (scheduling/ledger/apply/estimate-clock.ts).
 */

import { nextEstimateAtMs } from "../../scheduling/ledger/apply/apply.ts";
import type { StartEstimates } from "../../protocol/control-contract.ts";
import { COST, spend } from "./continue.ts";
import { fold, issue, update, type FleetState, type FleetStep } from "./state.ts";

/** Infinite while no job waits, or an estimate is under way. */
export const nextEstimatesAtMs = ({ ledger, estimates }: FleetState): number =>
  estimates.underway === undefined ? nextEstimateAtMs(ledger, estimates.doneUpToMs) : Infinity;

/** The ledger has been as it is until now. */
export function skipUnused(step: FleetStep, nowMs: number): FleetStep {
  const { ledger, estimates } = step.state;
  if (nextEstimateAtMs(ledger, estimates.doneUpToMs) < Infinity) return step;
  return update(step, { estimates: { ...estimates, doneUpToMs: nowMs } });
}

export function startEstimates(step: FleetStep): FleetStep {
  const { name: fleet, estimates, nextId } = step.state;
  const started = update(step, { estimates: { ...estimates, underway: nextId } });
  return issue(spend(started, COST.background, []), (id) => {
    return { kind: "estimate-starts", id, order: { fleet } };
  });
}

/** Without estimates the activity gave up; the next time of the grid will do. */
export function endEstimates(
  step: FleetStep,
  answer: { readonly id: number; readonly estimates?: StartEstimates },
  nowMs: number,
): FleetStep {
  if (step.state.estimates.underway !== answer.id) return step;
  const ended = update(step, {
    estimates: { underway: undefined, doneUpToMs: nowMs },
    isTurnDue: true,
  });
  const found = answer.estimates;
  if (found === undefined || found.estimates.length === 0) return ended;
  return fold(ended, { kind: "estimated", ...found, nowMs });
}
