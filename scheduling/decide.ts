/**
 * @file What to do next: a snapshot of the ledger in, a plan out. The same snapshot, time and ports give the same plan.
 *
 * `decide` composes queue, placement and reservations in one scheduling cycle (cycle.ts, where it is shown why nobody starves).
 * `decideBaseline` answers when `decide` throws or overruns its deadline: the plain policies over the head of the queue,
 * a fraction of the work, no reasons, and a wish to be called again soon.
 * Both bound their work by counting it, never by time.
 */

import type { Plan } from "../domain/plan.ts";
import { RETRY_MS, runCycle, type CycleLimits, type DecidePorts, type Policies } from "./cycle.ts";
import type { Ledger } from "./ledger.ts";
import { baseline, tawfq } from "./policy-sets.ts";

export type { DecidePorts } from "./cycle.ts";

export const DECIDE_POLICIES: Policies = tawfq;

export const DECIDE_LIMITS: CycleLimits = {
  /** Judges 100,000 kinds of requests over 20 clusters. */
  maxCandidates: 4_000_000,
  /** Keeps a plan's reasons below about 100 KiB of history. */
  maxReasons: 200,
  freshReasons: 50,
};

/** A few hundred requests: a few milliseconds. */
const BASELINE_LIMITS: CycleLimits = { maxCandidates: 20_000, maxReasons: 0, freshReasons: 0 };

export interface DecideOptions {
  readonly policies?: Policies;
  readonly limits?: CycleLimits;
}

export function decide(
  snapshot: Ledger,
  nowMs: number,
  ports: DecidePorts = {},
  { policies = DECIDE_POLICIES, limits = DECIDE_LIMITS }: DecideOptions = {},
): Plan {
  return runCycle(snapshot, nowMs, { policies, ports, limits, method: "decide" }).plan;
}

export function decideBaseline(snapshot: Ledger, nowMs: number, ports: DecidePorts = {}): Plan {
  const options = {
    policies: baseline,
    ports,
    limits: BASELINE_LIMITS,
    method: "baseline",
  } as const;
  const { plan } = runCycle(snapshot, nowMs, options);
  return { ...plan, wakeAtMs: Math.min(plan.wakeAtMs ?? Infinity, nowMs + RETRY_MS) };
}
