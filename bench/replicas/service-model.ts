/**
 * @file A stated service model of an engine with continuous batching, played event by event: what the planner's closed forms are judged by.
 *
 * Each step takes one token of every request that decodes, and up to `stepTokens` tokens of prompts in their order of arrival. It takes the time of the
 * decode step and of those tokens' share of a prompt. Requests come at random times (Poisson), and as many decode together as the replica allows.
 */

import { randomFrom } from "../../lib/random.ts";
import type { ServiceGoal } from "../../domain/model/engine-names.ts";
import { ENGINE } from "../../planning/serving/engine-memory.ts";
import type { Replica } from "../../planning/serving/service-level.ts";

export interface Answered {
  readonly ttftMs: number;
  /** Mean over its further tokens. */
  readonly tpotMs: number;
}

interface Under {
  readonly cameMs: number;
  promptLeft: number;
  tokensLeft: number;
  firstMs: number;
}

export function playReplica(
  { prompt, stepMs }: Replica,
  goal: ServiceGoal,
  {
    ratePerS,
    count,
    seed,
  }: { readonly ratePerS: number; readonly count: number; readonly seed: number },
): readonly Answered[] {
  const random = randomFrom(seed, "requests");
  let next = 0;
  const arrivals = Array.from({ length: count }, () => {
    next += random.exponential(1000 / ratePerS);
    return next;
  });
  const waiting: Under[] = [];
  const running: Under[] = [];
  const answered: Answered[] = [];
  let [now, at] = [0, 0];
  while (answered.length < count) {
    if (waiting.length === 0 && running.length === 0) now = Math.max(now, arrivals[at] ?? now);
    for (; at < count && (arrivals[at] ?? Infinity) <= now; at += 1)
      waiting.push({
        cameMs: arrivals[at] ?? 0,
        promptLeft: goal.promptTokens,
        tokensLeft: goal.outputTokens,
        firstMs: 0,
      });
    let budget = ENGINE.stepTokens;
    let taken = 0;
    const begun: Under[] = [];
    for (const request of waiting) {
      if (budget === 0 || running.length + begun.length >= stepMs.length) break;
      const tokens = Math.min(budget, request.promptLeft);
      [request.promptLeft, budget, taken] = [
        request.promptLeft - tokens,
        budget - tokens,
        taken + tokens,
      ];
      begun.push(request);
    }
    now +=
      (running.length === 0 ? 0 : (stepMs[running.length - 1] ?? 0)) +
      (prompt.busyMs * taken) / goal.promptTokens;
    for (const request of running) request.tokensLeft -= 1;
    for (const request of begun.filter(({ promptLeft }) => promptLeft === 0)) {
      waiting.splice(waiting.indexOf(request), 1);
      request.firstMs = now;
      request.tokensLeft -= 1;
      running.push(request);
    }
    for (const request of running.filter(({ tokensLeft }) => tokensLeft <= 0)) {
      running.splice(running.indexOf(request), 1);
      const { cameMs, firstMs } = request;
      answered.push({
        ttftMs: firstMs - cameMs,
        tpotMs: (now - firstMs) / Math.max(1, goal.outputTokens - 1),
      });
    }
  }
  return answered;
}

/** The share of answers that keep both times. */
export const keptShare = (answers: readonly Answered[], goal: ServiceGoal): number =>
  answers.filter(({ ttftMs, tpotMs }) => ttftMs <= goal.ttftMs && tpotMs <= goal.tpotMs).length /
  answers.length;
