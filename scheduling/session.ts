/**
 * @file The brain as something that stays: a ledger that events change in place, and decisions on it at any time.
 *
 * The same `apply` and the same cycle as ever (apply.ts, cycle.ts), on a draft that stays open instead of being copied for every
 * event, and on a brain that follows it (brain.ts). The law: after any history, `session.decide(nowMs)` is `decide` of the session's
 * ledger, packed and unpacked or not. Cost: O(ledger) to open, O(what changed) an event.
 */

import type { HostId } from "../domain/ids.ts";
import { gpuCountOf, type Lease } from "../domain/lease.ts";
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
  readonly leased: Leased;
  /** `applied.ledger` is the session's own, as above. */
  readonly apply: (event: LedgerEvent) => Applied;
  /** What to do next; nothing changes before the plan is applied. */
  readonly decide: (nowMs: number) => Plan;
}

/** What is in leases now: kept with every change, so it costs nothing to ask. */
export interface Leased {
  readonly gpus: () => number;
  /** GPU mask. */
  readonly on: (host: HostId) => number;
}

export function openSession(ledger: Ledger, options: SessionOptions = {}): Session {
  const { policies = DECIDE_POLICIES, ports = {}, limits = DECIDE_LIMITS } = options;
  let brain: Brain | undefined;
  const leased = openLeased(ledger);
  const follows = watchBrain(
    () => brain,
    (host) => draft.hosts.get(host),
    () => {
      brain = undefined;
    },
  );
  const draft: Draft = openDraft(ledger, {
    ...follows,
    lease: (before, after) => {
      leased.note(before, -1);
      leased.note(after, 1);
      follows.lease?.(before, after);
    },
  });
  return {
    leased,
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

function openLeased({ leases }: Ledger): Leased & {
  readonly note: (lease: Lease | undefined, sign: 1 | -1) => void;
} {
  const masks = new Map<HostId, number>();
  let gpus = 0;
  const note = (lease: Lease | undefined, sign: 1 | -1): void => {
    if (lease === undefined) return;
    gpus += sign * gpuCountOf(lease.gpus);
    for (const { host, mask } of lease.gpus) {
      const before = masks.get(host) ?? 0;
      masks.set(host, sign === 1 ? before | mask : before & ~mask);
    }
  };
  for (const lease of leases.values()) note(lease, 1);
  return { gpus: () => gpus, on: (host) => masks.get(host) ?? 0, note };
}
