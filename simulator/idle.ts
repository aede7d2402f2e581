/**
 * @file Why GPUs are idle: the ledger's free GPUs after each of its changes by cycles, by what keeps them free, over time.
 *
 * `heads`: set apart for a job that cannot start yet. `evictions`: set apart for one for which others are stopping. `kept`: for one that
 * stops to go on with them. `misfit`: set apart for nobody while somebody waits, the latency reserve included, which the ledger does not
 * know. `unwanted`: nobody waits. What metrics count as idle beyond these is over, or has come, since the last cycle.
 * Cost: O(reservations) a cycle.
 */

import { popCount, type Reservation } from "../domain/lease.ts";
import type { Session } from "../scheduling/session.ts";

export const IDLE_CAUSES = ["heads", "evictions", "kept", "misfit", "unwanted"] as const;
export type IdleCause = (typeof IDLE_CAUSES)[number];
export type IdleTime = Readonly<Record<IdleCause, number>>;

type Seen = Pick<Session, "ledger" | "leased">;

export interface IdleBook {
  /** From now on this is the case. */
  readonly note: (seen: Seen, gpusInService: number, nowMs: number) => void;
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
    note(seen, gpusInService, nowMs) {
      settle(nowMs);
      rates = idleIn(seen, gpusInService);
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

function idleIn(
  { ledger: { requests, reservations }, leased }: Seen,
  gpusInService: number,
): IdleTime {
  let free = gpusInService - leased.gpus();
  const idle = { ...NOTHING };
  for (const { kind, gpus } of reservations?.values() ?? []) {
    for (const { host, mask } of gpus) {
      const open = popCount(mask & ~leased.on(host));
      idle[CAUSE_OF[kind]] += open;
      free -= open;
    }
  }
  idle[requests.size > 0 ? "misfit" : "unwanted"] = Math.max(0, free);
  return idle;
}
