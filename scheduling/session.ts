/**
 * @file The brain as something that stays: a ledger that events change in place, and decisions on it at any time.
 *
 * The same `apply` and the same cycle as ever (apply.ts, cycle.ts). The law: after any history, `session.decide(nowMs)` is
 * `decide` of the session's ledger, packed and unpacked or not.
 */

import type { Plan } from "../domain/plan.ts";
import { apply } from "./apply.ts";
import { runCycle, type CycleLimits, type DecidePorts, type Policies } from "./cycle.ts";
import { DECIDE_LIMITS, DECIDE_POLICIES } from "./decide.ts";
import type { Applied, Ledger, LedgerEvent } from "./ledger.ts";

export interface SessionOptions {
  readonly policies?: Policies;
  readonly ports?: DecidePorts;
  readonly limits?: CycleLimits;
}

export interface Session {
  /** As it is now: good until the next event, because its maps go on changing with the session. Cost: O(1). */
  readonly ledger: Ledger;
  /** `applied.ledger` is the session's own, as above. */
  readonly apply: (event: LedgerEvent) => Applied;
  /** What to do next; nothing changes before the plan is applied. */
  readonly decide: (nowMs: number) => Plan;
}

export function openSession(ledger: Ledger, options: SessionOptions = {}): Session {
  const { policies = DECIDE_POLICIES, ports = {}, limits = DECIDE_LIMITS } = options;
  let now = ledger;
  return {
    get ledger() {
      return now;
    },
    apply(event) {
      const applied = apply(now, event);
      now = applied.ledger;
      return applied;
    },
    decide: (nowMs) => runCycle(now, nowMs, { policies, ports, limits, method: "decide" }).plan,
  };
}
