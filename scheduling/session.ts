/**
 * @file The brain as something that stays: a ledger that events change in place, and decisions on it at any time.
 *
 * The same `apply` and the same cycle as ever (apply.ts, cycle.ts), on a draft that stays open instead of being copied for every
 * event, and on a brain that follows it (brain.ts). The law: after any history, `session.decide(nowMs)` is `decide` of the session's
 * ledger, packed and unpacked or not. Cost: O(ledger) to open, O(what changed) an event.
 */

import type { Plan } from "../domain/plan.ts";
import { applyTo } from "./apply.ts";
import { openBrain, watchBrain, type Brain } from "./brain.ts";
import {
  isDismissing,
  runCycleOn,
  type CycleLimits,
  type DecidePorts,
  type Policies,
} from "./cycle.ts";
import { openHoldingsBook } from "./holdings-book.ts";
import { DECIDE_LIMITS, DECIDE_POLICIES } from "./decide.ts";
import { ledgerOf, openDraft, takeOutcome, type Draft } from "./draft.ts";
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
  let brain: Brain | undefined;
  const draft: Draft = openDraft(
    ledger,
    watchBrain(
      () => brain,
      (host) => draft.hosts.get(host),
      () => {
        brain = undefined;
      },
    ),
  );
  return {
    get ledger() {
      return ledgerOf(draft);
    },
    apply(event) {
      applyTo(draft, event);
      return { ledger: ledgerOf(draft), ...takeOutcome(draft) };
    },
    decide(nowMs) {
      const snapshot = ledgerOf(draft);
      brain ??= openBrain(snapshot, policies.queue, { isDismissing: isDismissing({ limits }) });
      brain.book ??= openHoldingsBook(snapshot, brain.capacity.index);
      return runCycleOn(brain, { snapshot, nowMs }, { policies, ports, limits, method: "decide" })
        .plan;
    },
  };
}
