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
}

const GROUPS: Readonly<Record<UsageGroup, string>> = {
  tenant: "l.tenant",
  user: "coalesce(nullif((SELECT j.user FROM jobs j WHERE j.job = l.job LIMIT 1), ''), '-')",
  class: "l.class",
  month: "strftime('%Y-%m', l.grantedMs / 1000, 'unixepoch')",
  type: "l.gpuType",
  job: "l.job",
};

/** Parts of leases within the span; lost work counts where its run ended. A lease that is held counts to the last event that was read. */
export function usageBy(
  database: HistoryDatabase,
  groups: readonly UsageGroup[],
  { fromMs, toMs }: UsageSpan,
): readonly UsageRow[] {
  const names = groups.map((group) => GROUPS[group]);
  const rows = database.all<Readonly<Record<string, string | number>>>(
    `WITH cut AS (
       SELECT l.*, ${names.map((name, at) => `${name} AS name${String(at)}`).join(", ")},
         max(l.grantedMs, :fromMs) AS beginMs,
         min(coalesce(l.freedMs, (SELECT atMs FROM cursor), l.grantedMs), :toMs) AS finishMs
       FROM leases l WHERE l.grantedMs < :toMs AND coalesce(l.freedMs, :toMs) > :fromMs),
     parts AS (
       SELECT *, gpus * max(0, finishMs - beginMs) AS held,
         CASE WHEN outcome IS NULL THEN 0
           ELSE gpus * max(0, min(coalesce(endedMs, beginMs), finishMs) - max(coalesce(startedMs, finishMs), beginMs)) END AS ran,
         CASE WHEN outcome IS NOT NULL AND endedMs >= :fromMs AND endedMs < :toMs THEN lostGpuSeconds * 1000 ELSE 0 END AS gone
       FROM cut)
     SELECT ${names.map((_, at) => `name${String(at)}`).join(", ")}, count(*) AS leases, sum(held) AS held,
       sum(max(0, ran - gone)) AS useful, sum(min(ran, gone)) AS lost,
       sum(CASE WHEN outcome IS NULL THEN 0 ELSE held - ran END) AS idle,
       sum(CASE WHEN outcome IS NULL THEN held ELSE 0 END) AS unknown
     FROM parts GROUP BY ${names.map((_, at) => String(at + 1)).join(", ")}
     ORDER BY ${names.map((_, at) => String(at + 1)).join(", ")}`,
    { fromMs, toMs },
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
  }));
}

/** The last one first. */
export const endedJobs = (database: HistoryDatabase, sinceMs: number): readonly JobRecord[] =>
  database.all<JobRecord>(
    "SELECT * FROM jobs WHERE endedMs >= :sinceMs ORDER BY endedMs DESC, job",
    { sinceMs },
  );
