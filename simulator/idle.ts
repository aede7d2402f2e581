/**
 * @file The causes of idle GPUs over time: after each change by a cycle, the ledger's free GPUs by what keeps them free.
 *
 * `reservations`: reserved for a job that cannot start yet. `evictions`: reserved for a job for which others are stopping. `kept`: reserved
 * for a job that stops to resume with more GPUs. `unusable`: not reserved while requests wait that do not fit, the inference headroom
 * included, which the ledger does not know. `unwanted`: no request waits. The rest of what metrics count as idle changed since the last cycle.
 * Cost: O(reservations) a cycle.
 */

import { popCount, type Reservation } from "../domain/lease/lease.ts";
import type { Session } from "../scheduling/cycle/live-scheduler.ts";

export const IDLE_CAUSES = ["reservations", "evictions", "kept", "unusable", "unwanted"] as const;
type IdleCause = (typeof IDLE_CAUSES)[number];
export type IdleTime = Readonly<Record<IdleCause, number>>;

type Seen = Pick<Session, "ledger" | "leased">;

interface IdleBook {
  /** The state of the ledger from now on. */
  readonly note: (seen: Seen, gpusInService: number, nowMs: number) => void;
  /** GPU-milliseconds up to now. */
  readonly read: (nowMs: number) => IdleTime;
}

const CAUSE_OF: Readonly<Record<Reservation["kind"], IdleCause>> = {
  backfill: "reservations",
  preemption: "evictions",
  headroom: "evictions",
  keep: "kept",
  replace: "kept",
};

const NOTHING: IdleTime = { reservations: 0, evictions: 0, kept: 0, unusable: 0, unwanted: 0 };

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
  reservations: of("reservations"),
  evictions: of("evictions"),
  kept: of("kept"),
  unusable: of("unusable"),
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
  idle[requests.size > 0 ? "unusable" : "unwanted"] = Math.max(0, free);
  return idle;
}
