/** @file GPU-hours by tenant, user, class or month, from the history database; and the jobs that have ended. */

import type { HistoryDatabase, JobRecord } from "./database.ts";

export const USAGE_GROUPS = ["tenant", "user", "class", "month", "type", "job"] as const;
export type UsageGroup = (typeof USAGE_GROUPS)[number];

export interface UsageSpan {
  readonly fromMs: number;
  readonly toMs: number;
}

/** GPU-hours. `held` = `useful` + `lost` + `idle` + `unknown`. */
export interface UsageRow {
  /** One name for each group that was asked for. */
  readonly names: readonly string[];
  readonly leases: number;
  readonly held: number;
  /** Processes ran, and what they did was kept. */
  readonly useful: number;
  /** Processes ran, and their work since the last checkpoint was lost. */
  readonly lost: number;
  /** Held before the processes started and after they had ended. */
  readonly idle: number;
  /** Of jobs whose own history has not been read yet: those that have not ended. */
  readonly unknown: number;
  /** Those of which agents told how much their GPUs are used; spread evenly over a lease that the span cuts. */
  readonly measured: number;
  /** Of `measured`, each times the share in use. */
  readonly used: number;
}

/** In SQL, where `l` is a lease. */
export const GROUPS: Readonly<Record<UsageGroup, string>> = {
  tenant: "l.tenant",
  user: `coalesce(nullif((SELECT j.user FROM jobs j WHERE j.job = l.job LIMIT 1), ''),
    nullif((SELECT u.user FROM users u WHERE u.job = l.job), ''), '-')`,
  class: "l.class",
  month: ":month",
  type: "l.gpuType",
  job: "l.job",
};

/**
 * Parts of leases within the span; lost work counts where its run ended. A lease that is held counts to the last event that was read, and by
 * months in each month in which it was held.
 */
export function usageBy(
  database: HistoryDatabase,
  groups: readonly UsageGroup[],
  span: UsageSpan,
): readonly UsageRow[] {
  if (!groups.includes("month")) return usageIn(database, groups, { ...span, month: "" });
  return monthsIn(database, span)
    .flatMap((month) => usageIn(database, groups, month))
    .sort((one, other) => compareNames(one.names, other.names));
}

interface Month extends UsageSpan {
  /** `2027-03`, in UTC. */
  readonly month: string;
}

/** The months of the span in which leases were held, cut by the span. */
function monthsIn(database: HistoryDatabase, { fromMs, toMs }: UsageSpan): readonly Month[] {
  const [held] = database.all<{ readonly firstMs: number | null; readonly lastMs: number }>(
    `SELECT min(grantedMs) AS firstMs, max(coalesce(freedMs, (SELECT atMs FROM cursor), grantedMs)) AS lastMs FROM leases`,
    {},
  );
  const months: Month[] = [];
  let beginMs = Math.max(fromMs, held?.firstMs ?? Infinity);
  const lastMs = Math.min(toMs - 1, held?.lastMs ?? 0);
  while (beginMs <= lastMs) {
    const day = new Date(beginMs);
    const nextMs = Date.UTC(day.getUTCFullYear(), day.getUTCMonth() + 1);
    const month = day.toISOString().slice(0, 7);
    months.push({ month, fromMs: beginMs, toMs: Math.min(nextMs, toMs) });
    beginMs = nextMs;
  }
  return months;
}

function compareNames(one: readonly string[], other: readonly string[]): number {
  for (const [at, name] of one.entries()) {
    const against = other[at] ?? "";
    if (name !== against) return name < against ? -1 : 1;
  }
  return 0;
}

function usageIn(
  database: HistoryDatabase,
  groups: readonly UsageGroup[],
  { fromMs, toMs, month }: Month,
): readonly UsageRow[] {
  const names = groups.map((group) => GROUPS[group]);
  const rows = database.all<Readonly<Record<string, string | number>>>(
    `WITH cut AS (
       SELECT l.*, ${names.map((name, at) => `${name} AS name${String(at)}`).join(", ")},
         max(l.grantedMs, :fromMs) AS beginMs,
         min(coalesce(l.freedMs, (SELECT atMs FROM cursor), l.grantedMs), :toMs) AS finishMs,
         coalesce(l.freedMs, (SELECT atMs FROM cursor), l.grantedMs) AS overMs, coalesce(s.usedMs, 0) AS usedMs, coalesce(s.toldMs, 0) AS toldMs
       FROM leases l LEFT JOIN uses s ON s.job = l.job AND s.run = l.run AND s.lease = l.lease
       WHERE l.grantedMs < :toMs AND coalesce(l.freedMs, :toMs) > :fromMs),
     parts AS (
       SELECT *, gpus * max(0, finishMs - beginMs) AS held,
         CASE WHEN overMs > grantedMs THEN max(0.0, finishMs - beginMs) / (overMs - grantedMs) ELSE 1 END AS part,
         CASE WHEN outcome IS NULL THEN 0
           ELSE gpus * max(0, min(coalesce(endedMs, beginMs), finishMs) - max(coalesce(startedMs, finishMs), beginMs)) END AS ran,
         CASE WHEN outcome IS NOT NULL AND endedMs >= :fromMs AND endedMs < :toMs THEN lostGpuSeconds * 1000 ELSE 0 END AS gone
       FROM cut)
     SELECT ${names.map((_, at) => `name${String(at)}`).join(", ")}, count(*) AS leases, sum(held) AS held,
       sum(max(0, ran - gone)) AS useful, sum(min(ran, gone)) AS lost,
       sum(CASE WHEN outcome IS NULL THEN 0 ELSE held - ran END) AS idle,
       sum(CASE WHEN outcome IS NULL THEN held ELSE 0 END) AS unknown,
       sum(toldMs * part) AS measured, sum(usedMs * part) AS used
     FROM parts GROUP BY ${names.map((_, at) => String(at + 1)).join(", ")}
     ORDER BY ${names.map((_, at) => String(at + 1)).join(", ")}`,
    { fromMs, toMs, month },
  );
  const hours = (value: string | number | undefined): number => Number(value) / 3_600_000;
  return rows.map((row) => ({
    names: names.map((_, at) => String(row[`name${String(at)}`])),
    leases: Number(row["leases"]),
    held: hours(row["held"]),
    useful: hours(row["useful"]),
    lost: hours(row["lost"]),
    idle: hours(row["idle"]),
    unknown: hours(row["unknown"]),
    measured: hours(row["measured"]),
    used: hours(row["used"]),
  }));
}

/** The last one first. */
export const endedJobs = (database: HistoryDatabase, sinceMs: number): readonly JobRecord[] =>
  database.all<JobRecord>(
    "SELECT * FROM jobs WHERE endedMs >= :sinceMs ORDER BY endedMs DESC, job",
    { sinceMs },
  );
