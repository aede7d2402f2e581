/**
 * @file A scheduler that stays: a ledger that events change in place, and decisions on it at any time.
 *
 * The same `apply` and the same cycle as elsewhere (apply.ts, cycle.ts), on a transaction that stays open instead of a copy for every
 * event, and on a cache that follows it (scheduler-cache.ts). The law: after any history, `session.decide(nowMs)` is `decide` of the session's
 * ledger, packed and unpacked or not. Cost: O(ledger) to open, O(changes) an event.
 */

import type { HostId } from "../../domain/values/ids.ts";
import { gpuCountOf, popCount, type HostGpus, type Lease } from "../../domain/lease/lease.ts";
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
  /** How many of these GPUs are in no lease. */
  readonly freeOf: (gpus: readonly HostGpus[]) => number;
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

/** The leased GPUs of one host. */
interface LeasedHost {
  mask: number;
}

function openLeased({ leases }: Ledger): Leased & {
  readonly note: (lease: Lease | undefined, sign: 1 | -1) => void;
} {
  const hosts = new Map<HostId, LeasedHost>();
  /** Of lists of GPUs, which do not change: gangs and reservations are counted again and again. */
  const hostsOf = new WeakMap<readonly HostGpus[], readonly LeasedHost[]>();
  let count = 0;
  const hostsOn = (gpus: readonly HostGpus[]): readonly LeasedHost[] => {
    const known = hostsOf.get(gpus);
    if (known !== undefined) return known;
    const found = gpus.map(({ host: id }) => {
      const host = hosts.get(id) ?? { mask: 0 };
      hosts.set(id, host);
      return host;
    });
    hostsOf.set(gpus, found);
    return found;
  };
  const note = (lease: Lease | undefined, sign: 1 | -1): void => {
    if (lease === undefined) return;
    const { gpus } = lease;
    count += sign * gpuCountOf(gpus);
    const on = hostsOn(gpus);
    let at = 0;
    for (const { mask } of gpus) {
      const host = on[at];
      if (host !== undefined) host.mask = sign === 1 ? host.mask | mask : host.mask & ~mask;
      at += 1;
    }
  };
  const freeOf = (gpus: readonly HostGpus[]): number => {
    const on = hostsOn(gpus);
    let free = 0;
    let at = 0;
    for (const { mask } of gpus) {
      free += popCount(mask & ~(on[at]?.mask ?? 0));
      at += 1;
    }
    return free;
  };
  for (const lease of leases.values()) note(lease, 1);
  return { gpus: () => count, freeOf, note };
}
