/**
 * @file Why GPUs are idle: the ledger's free GPUs after each of its changes by cycles, by what keeps them free, over time.
 *
 * `heads`: set apart for a job that cannot start yet. `evictions`: set apart for one for which others are stopping. `kept`: for one that
 * stops to go on with them. `misfit`: set apart for nobody while somebody waits, the latency reserve included, which the ledger does not
 * know. `unwanted`: nobody waits. What metrics count as idle beyond these is over, or has come, since the last cycle.
 * Cost: O(leases + reservations) a cycle in which somebody waits.
 */

import { gpuCountOf, popCount, type Reservation } from "../domain/lease.ts";
import type { Ledger } from "../scheduling/ledger.ts";

export const IDLE_CAUSES = ["heads", "evictions", "kept", "misfit", "unwanted"] as const;
export type IdleCause = (typeof IDLE_CAUSES)[number];
export type IdleTime = Readonly<Record<IdleCause, number>>;

export interface IdleBook {
  /** From now on this is the case. */
  readonly note: (ledger: Ledger, gpusInService: number, nowMs: number) => void;
  /** GPU-milliseconds up to now. */
  readonly read: (nowMs: number) => IdleTime;
}

const CAUSE_OF: Readonly<Record<Reservation["kind"], IdleCause>> = {
  head: "heads",
  preemption: "evictions",
  bridge: "evictions",
  keep: "kept",
};

const NOTHING: IdleTime = { heads: 0, evictions: 0, kept: 0, misfit: 0, unwanted: 0 };

export function openIdleBook(): IdleBook {
  let totals = NOTHING;
  let rates = NOTHING;
  let settledMs = 0;
  const settle = (nowMs: number): void => {
    const dt = Math.max(0, nowMs - settledMs);
    totals = mapCauses((cause) => totals[cause] + rates[cause] * dt);
    settledMs = Math.max(settledMs, nowMs);
  };
  return {
    note(ledger, gpusInService, nowMs) {
      settle(nowMs);
      rates = idleIn(ledger, gpusInService);
    },
    read(nowMs) {
      settle(nowMs);
      return totals;
    },
  };
}

export const mapCauses = (of: (cause: IdleCause) => number): IdleTime => ({
  heads: of("heads"),
  evictions: of("evictions"),
  kept: of("kept"),
  misfit: of("misfit"),
  unwanted: of("unwanted"),
});

function idleIn({ leases, requests, reservations }: Ledger, gpusInService: number): IdleTime {
  const leased = new Map<string, number>();
  let free = gpusInService;
  for (const { gpus } of leases.values()) {
    free -= gpuCountOf(gpus);
    for (const { host, mask } of gpus) leased.set(host, (leased.get(host) ?? 0) | mask);
  }
  const idle = { ...NOTHING };
  for (const { kind, gpus } of reservations?.values() ?? []) {
    for (const { host, mask } of gpus) {
      const open = popCount(mask & ~(leased.get(host) ?? 0));
      idle[CAUSE_OF[kind]] += open;
      free -= open;
    }
  }
  idle[requests.size > 0 ? "misfit" : "unwanted"] = Math.max(0, free);
  return idle;
}
