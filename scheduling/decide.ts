/**
 * @file What to do next: a snapshot of the ledger in, a plan out. The same snapshot, time and ports give the same plan.
 *
 * `decide` composes queue, placement and pick in one scheduling cycle (cycle.ts, where it is shown why nobody starves).
 * `decideBaseline` answers when `decide` throws or overruns its deadline: the plain policies over the head of the queue,
 * a fraction of the work, no reasons, and a wish to be called again soon.
 * Both bound their work by counting it, never by time.
 */

import type { Plan } from "../domain/plan.ts";
import { runCycle, type CycleLimits, type DecidePorts, type Policies } from "./cycle.ts";
import type { Ledger } from "./ledger.ts";
import { lowestIds } from "./pick/lowest-ids.ts";
import { firstFit } from "./placement/first-fit.ts";
import { fifo } from "./queue/fifo.ts";

export type { DecidePorts } from "./cycle.ts";

/** The plain policies: correct, exact in what fits, and blind to fairness, distance and bandwidth. */
const PLAIN: Policies = { queue: fifo, placement: firstFit, pick: lowestIds };

export const DECIDE_POLICIES: Policies = PLAIN;

export const DECIDE_LIMITS: CycleLimits = {
  /** Judges 100,000 requests over 20 clusters. */
  maxCandidates: 4_000_000,
  /** Keeps a plan's reasons below about 100 KiB of history. */
  maxReasons: 200,
  freshReasons: 50,
};

/** A few hundred requests: a few milliseconds. */
const BASELINE_LIMITS: CycleLimits = { maxCandidates: 20_000, maxReasons: 0, freshReasons: 0 };

export function decide(snapshot: Ledger, nowMs: number, ports: DecidePorts = {}): Plan {
  const options = {
    policies: DECIDE_POLICIES,
    ports,
    limits: DECIDE_LIMITS,
    method: "decide",
  } as const;
  return runCycle(snapshot, nowMs, options).plan;
}

export function decideBaseline(snapshot: Ledger, nowMs: number, ports: DecidePorts = {}): Plan {
  const options = { policies: PLAIN, ports, limits: BASELINE_LIMITS, method: "baseline" } as const;
  return runCycle(snapshot, nowMs, options).plan;
}
