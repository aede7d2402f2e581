/**
 * @file The times to the first and to the next token that one replica keeps under a load, and the greatest load under which it keeps both goals.
 *
 * Requests come at random times, `rate` a second, with P prompt and O output tokens. With s the time in which a prompt keeps the replica busy, D(n) the
 * time of a step in which n requests decode, and u = rate × s the share of time that prompts take:
 *
 * - A request's O tokens take W = O × D(n) + s × (rate × W + z √(rate × W)): as many prompts come between as 995 times in 1,000 at most. TPOT = W / O.
 * - n is the least whole number that is kept 995 moments in 1,000: the number in service is Poisson with mean m = rate × O × D(n) / (1 − u), and
 *   m + z √m ≤ n (Little's law; M/G/∞). Keys and values of n requests with P + O tokens each must fit.
 * - A prompt in `P / stepTokens` pieces is served in σ = s + pieces × D(n), because each piece carries a step of those that decode. Waiting is that of a
 *   queue with one server and equal services (M/D/1): with probability ρ = rate × σ, then about exponential with mean σ / (2 (1 − ρ)), so 995 in 1,000
 *   wait at most σ / (2 (1 − ρ)) × ln(200 ρ) (Kingman 1961).
 * - TTFT = that wait + the prompt alone + (whole pieces + 1) × D(n): the step under way comes first.
 *
 * Each time is kept by 995 in 1,000, so that both are by 99 in 100. All grow with the rate, so the greatest rate is found by halving.
 * Cost: O(requests) for each rate.
 */

import type { ServiceGoal } from "../../domain/model/engine-names.ts";
import { ENGINE } from "./engine-memory.ts";
import type { PromptTime } from "./engine-time.ts";

/** What one replica can do, as the times of its steps. */
export interface Replica {
  readonly prompt: PromptTime;
  /** Of n requests at place n − 1; as many as fit. */
  readonly stepMs: readonly number[];
}

export interface ServiceLevel {
  readonly ttftMs: number;
  readonly tpotMs: number;
  /** Requests that decode together, 995 moments in 1,000. */
  readonly requests: number;
}

/** Requests in 1,000 that may miss one of the two times, and the standard normal distribution there. */
const MISSES = 5 / 1000;
const Z = 2.576;
const HALVINGS = 40;

/** `ratePerS`: requests a second of this replica. Undefined when it cannot keep up. */
export function serviceLevel(
  { prompt, stepMs }: Replica,
  { promptTokens, outputTokens }: ServiceGoal,
  ratePerS: number,
): ServiceLevel | undefined {
  const rate = ratePerS / 1000;
  const free = 1 - rate * prompt.busyMs;
  if (free <= 0) return undefined;
  const at = stepMs.findIndex(
    (step, place) => (rate * outputTokens * step) / free <= meanOf(place + 1),
  );
  const step = stepMs[at];
  if (step === undefined) return undefined;
  const pieces = promptTokens / ENGINE.stepTokens;
  const service = prompt.busyMs + pieces * step;
  const load = rate * service;
  if (load >= 1) return undefined;
  const waitMs = (service / (2 * (1 - load))) * Math.max(0, Math.log(load / MISSES));
  // W is the square of x in free × x² − between × x − outputTokens × step = 0.
  const between = prompt.busyMs * Z * Math.sqrt(rate);
  const root = Math.sqrt(between ** 2 + 4 * free * outputTokens * step);
  const answerMs = ((between + root) / (2 * free)) ** 2;
  return {
    ttftMs: waitMs + prompt.wholeMs + (Math.ceil(pieces) + 1) * step,
    tpotMs: answerMs / outputTokens,
    requests: at + 1,
  };
}

/** The mean number in service with which `requests` is kept in 995 moments of 1,000. */
const meanOf = (requests: number): number => ((Math.sqrt(Z ** 2 + 4 * requests) - Z) / 2) ** 2;

export const isKept = (level: ServiceLevel | undefined, goal: ServiceGoal): boolean =>
  level !== undefined && level.ttftMs <= goal.ttftMs && level.tpotMs <= goal.tpotMs;

/** Requests a second; 0 when not even a request alone is answered in time. Never above the truth. */
export function greatestRate(replica: Replica, goal: ServiceGoal): number {
  if (!isKept(serviceLevel(replica, goal, 0), goal)) return 0;
  let kept = 0;
  let over = 1000 / replica.prompt.busyMs;
  for (let halving = 0; halving < HALVINGS; halving += 1) {
    const rate = (kept + over) / 2;
    if (isKept(serviceLevel(replica, goal, rate), goal)) kept = rate;
    else over = rate;
  }
  return kept;
}
