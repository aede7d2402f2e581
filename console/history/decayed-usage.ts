/**
 * @file What tenants, users and classes have used lately: GPU-hours that count half as much for each half-life that has passed since.
 *
 * As Slurm counts usage (`PriorityDecayHalfLife`, `sshare`). A GPU that was held from b to e counts, at the time t,
 * ∫ 2^(−(t−s)/h) ds from b to e = h/ln 2 · (2^(−(t−e)/h) − 2^(−(t−b)/h)). It is told, and orders no queue. Cost: linear in the leases that count.
 */

import type { HistoryDatabase } from "./database.ts";
import { GROUPS, type UsageGroup } from "./usage.ts";

/** What is older is less than a billionth of what it was. */
const MOST_HALF_LIVES = 30;
const HOUR_MS = 3_600_000;

export interface DecayedRow {
  /** One name for each group that was asked for. */
  readonly names: readonly string[];
  /** GPU-hours, decayed. */
  readonly decayed: number;
  /** Of the sum of all rows, 0 to 1. */
  readonly share: number;
}

/** In the order of the names. A lease that is held counts to the last event that was read. */
export function decayedUsage(
  database: HistoryDatabase,
  groups: readonly Exclude<UsageGroup, "month">[],
  { halfLifeMs, nowMs }: { readonly halfLifeMs: number; readonly nowMs: number },
): readonly DecayedRow[] {
  const columns = groups.map((group, at) => `${GROUPS[group]} AS name${String(at)}`);
  const leases = database.all<Readonly<Record<string, string | number>>>(
    `SELECT ${columns.join(", ")}, gpus, grantedMs AS beginMs,
       coalesce(l.freedMs, (SELECT atMs FROM cursor), l.grantedMs) AS endMs
     FROM leases l WHERE coalesce(l.freedMs, :nowMs) > :fromMs
     ORDER BY ${groups.map((_, at) => String(at + 1)).join(", ")}, l.job, l.run, l.lease`,
    { nowMs, fromMs: nowMs - MOST_HALF_LIVES * halfLifeMs },
  );
  const sums = new Map<string, { readonly names: readonly string[]; decayed: number }>();
  let total = 0;
  for (const lease of leases) {
    const names = groups.map((_, at) => String(lease[`name${String(at)}`]));
    const key = JSON.stringify(names);
    const sum = sums.get(key) ?? { names, decayed: 0 };
    sums.set(key, sum);
    const left = (atMs: number): number => 2 ** (-Math.max(0, nowMs - atMs) / halfLifeMs);
    const [beginMs, endMs] = [Number(lease["beginMs"]), Number(lease["endMs"])];
    const spanMs = (halfLifeMs / Math.LN2) * Math.max(0, left(endMs) - left(beginMs));
    const hours = (Number(lease["gpus"]) * spanMs) / HOUR_MS;
    sum.decayed += hours;
    total += hours;
  }
  return [...sums.values()].map((row) => ({ ...row, share: total > 0 ? row.decayed / total : 0 }));
}
