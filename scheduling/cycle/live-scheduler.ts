/**
 * @file A scheduler that stays: a ledger that events change in place, and decisions on it at any time.
 *
 * The same `apply` and the same cycle as elsewhere (apply.ts, cycle.ts), on a transaction that stays open instead of a copy for every
 * event, and on a cache that follows it (scheduler-cache.ts). The law: after any history, `session.decide(nowMs)` is `decide` of the session's
 * ledger, packed and unpacked or not. Cost: O(ledger) to open, O(changes) an event.
 */

import type { HostId } from "../../domain/values/ids.ts";
import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import { applyTo } from "../ledger/apply/apply.ts";
import { openSchedulerCache, watchScheduler, type SchedulerCache } from "./scheduler-cache.ts";
import {
  isDismissing,
  runCycleOn,
  type CycleLimits,
  type DecidePorts,
  type Policies,
} from "./cycle.ts";
import { noteJob, openHoldingsBook } from "../fairness/holdings-index.ts";
import { METHODS, withEarlyWake } from "./decide.ts";
import {
  ledgerOf,
  openTransaction,
  takeOutcome,
  type LedgerTransaction,
} from "../ledger/apply/transaction.ts";
import type { Applied, Ledger, LedgerEvent } from "../ledger/ledger.ts";

export interface SessionOptions {
  readonly policies?: Policies;
  readonly ports?: DecidePorts;
  readonly limits?: CycleLimits;
  /** Which of the two decides; the policies and limits are those of `decide.ts` unless others are given. */
  readonly method?: "decide" | "baseline";
}

export interface Session {
  /** Valid until the next event, because its maps change with the session. Cost: O(1). */
  readonly ledger: Ledger;
  readonly leased: Leased;
  /** `applied.ledger` is the session's, as above. */
  readonly apply: (event: LedgerEvent) => Applied;
  /** The next plan; nothing changes before it is applied. `ports`: instead of the session's. */
  readonly decide: (nowMs: number, ports?: DecidePorts) => Plan;
}

/** Leased GPUs, counted with every change, so that reading costs nothing. */
export interface Leased {
  readonly gpus: () => number;
  /** GPU mask. */
  readonly on: (host: HostId) => number;
}

export function openSession(ledger: Ledger, options: SessionOptions = {}): Session {
  const { method = "decide" } = options;
  const own = METHODS[method];
  const { policies = own.policies, ports: ownPorts = {}, limits = own.limits } = options;
  let cache: SchedulerCache | undefined;
  const leased = openLeased(ledger);
  const follows = watchScheduler(
    () => cache,
    (host) => transaction.hosts.get(host),
    () => {
      cache = undefined;
    },
  );
  const transaction: LedgerTransaction = openTransaction(ledger, {
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
      return ledgerOf(transaction);
    },
    apply(event) {
      applyTo(transaction, event);
      if (event.kind === "plan" && cache?.book !== undefined)
        for (const { request } of event.plan.pending) noteJob(cache.book, request.jobId);
      return { ledger: ledgerOf(transaction), ...takeOutcome(transaction) };
    },
    decide(nowMs, ports = ownPorts) {
      const snapshot = ledgerOf(transaction);
      cache ??= openSchedulerCache(snapshot, policies.queue, {
        isDismissing: isDismissing({ limits }),
      });
      if (policies.isPreempting === true)
        cache.book ??= openHoldingsBook(snapshot, cache.capacity.index);
      const { plan } = runCycleOn(cache, { snapshot, nowMs }, { policies, ports, limits, method });
      return method === "baseline" ? withEarlyWake(plan, nowMs) : plan;
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
