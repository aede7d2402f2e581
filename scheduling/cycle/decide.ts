/**
 * @file Decides what to do next: a snapshot of the ledger in, a plan out. The same snapshot, time and ports give the same plan.
 *
 * `decide` composes queue, placement and reservations in one scheduling cycle (cycle.ts shows why no request starves).
 * `decideBaseline` answers when `decide` throws or overruns its deadline: the plain policies over the front of the queue,
 * a fraction of the work, no reasons, and an early next cycle.
 * Both bound their work by counting it, never by time.
 */

import type { Plan } from "../../domain/lease/plan.ts";
import { RETRY_MS, runCycle, type CycleLimits, type DecidePorts, type Policies } from "./cycle.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { baseline, tawfq } from "./policy-sets.ts";

export type { DecidePorts } from "./cycle.ts";

export const DECIDE_POLICIES: Policies = tawfq;

export const DECIDE_LIMITS: CycleLimits = {
  /** Enough for 100,000 kinds of requests over 20 clusters. */
  maxCandidates: 4_000_000,
  /** Keeps a plan's reasons below about 100 KiB of history. */
  maxReasons: 200,
  freshReasons: 50,
};

/** The same decisions, for those who read no reasons: no decision depends on one. */
export const SILENT_LIMITS: CycleLimits = { ...DECIDE_LIMITS, maxReasons: 0, freshReasons: 0 };

/**
 * More than a fleet holds: the baseline takes the earliest first, and what it did not come to would wait for as long as it has to answer. A request whose like was looked at costs one, so a few
 * milliseconds; thousands of which none is like another take some hundred.
 */
const BASELINE_LIMITS: CycleLimits = { maxCandidates: 40_000, maxReasons: 0, freshReasons: 0 };

/** How each method decides. */
export const METHODS: Readonly<
  Record<"decide" | "baseline", { readonly policies: Policies; readonly limits: CycleLimits }>
> = {
  decide: { policies: DECIDE_POLICIES, limits: DECIDE_LIMITS },
  baseline: { policies: baseline, limits: BASELINE_LIMITS },
};

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
  const options = { ...METHODS.baseline, ports, method: "baseline" } as const;
  return withEarlyWake(runCycle(snapshot, nowMs, options).plan, nowMs);
}

/** The baseline looks at the front of the queue only: the next cycle comes soon. */
export const withEarlyWake = (plan: Plan, nowMs: number): Plan => ({
  ...plan,
  wakeAtMs: Math.min(plan.wakeAtMs ?? Infinity, nowMs + RETRY_MS),
});

/** For a fleet whose deciders have all failed. */
export const planOfNone = (nowMs: number): Plan =>
  withEarlyWake({ items: [], pending: [], stats: { method: "none", candidates: 0 } }, nowMs);
