/**
 * @file Sums over all jobs and leases that a history database ever had, kept by triggers in the transaction of each row: a scrape reads a few dozen rows,
 * whatever the size of the file, and what is forgotten or read again changes no sum.
 *
 * Whole numbers alone, so that a sum to which a row's former part is given back never goes down. A lease counts once its end and its way back are known,
 * by the formula of `usage.ts`.
 */

import type Libsql from "libsql";

export interface Tally {
  readonly name: "jobs" | "useful" | "lost" | "idle" | "predictions" | "prediction-error";
  readonly class: string;
  /** How the jobs, or the runs of the leases, have ended. */
  readonly end: string;
  /** Jobs; GPU-milliseconds; gangs; millionths. */
  readonly value: number;
}

const RAN = (row: string): string =>
  `${row}.gpus * max(0, min(coalesce(${row}.endedMs, ${row}.grantedMs), ${row}.freedMs) - max(coalesce(${row}.startedMs, ${row}.freedMs), ${row}.grantedMs))`;
const HELD = (row: string): string => `${row}.gpus * max(0, ${row}.freedMs - ${row}.grantedMs)`;
const LOST = (row: string): string =>
  `min(${RAN(row)}, CAST(round(${row}.lostGpuSeconds * 1000) AS INTEGER))`;

/** Of one lease, each an integer. */
const PARTS: readonly (readonly [name: Tally["name"], of: (row: string) => string])[] = [
  ["useful", (row) => `(${RAN(row)}) - (${LOST(row)})`],
  ["lost", LOST],
  ["idle", (row) => `(${HELD(row)}) - (${RAN(row)})`],
  ["predictions", (row) => `${row}.bandwidthError IS NOT NULL`],
  [
    "prediction-error",
    (row) => `CAST(round(coalesce(${row}.bandwidthError, 0) * 1000000) AS INTEGER)`,
  ],
];

const ADD = "ON CONFLICT DO UPDATE SET value = value + excluded.value;";
const isSettled = (row: string): string =>
  `${row}.outcome IS NOT NULL AND ${row}.freedMs IS NOT NULL`;

const addLease = (row: "NEW" | "OLD", sign: "+" | "-"): string =>
  PARTS.map(
    ([name, of]) =>
      `INSERT INTO tallies SELECT '${name}', ${row}.class, ${row}.outcome, ${sign}(${of(row)}) WHERE ${isSettled(row)} ${ADD}`,
  ).join("\n");

const TABLE = `
CREATE TABLE tallies (name TEXT NOT NULL, class TEXT NOT NULL, end TEXT NOT NULL, value INTEGER NOT NULL, PRIMARY KEY (name, class, end)) WITHOUT ROWID;
CREATE TRIGGER tally_job AFTER INSERT ON jobs BEGIN
  INSERT INTO tallies VALUES ('jobs', NEW.class, NEW.outcome, 1) ${ADD}
END;
CREATE TRIGGER tally_lease AFTER UPDATE ON leases BEGIN
${addLease("NEW", "+")}
${addLease("OLD", "-")}
END;`;

/** What a file of a former release has already. */
const FILL = `
INSERT INTO tallies SELECT 'jobs', class, outcome, count(*) FROM jobs GROUP BY class, outcome;
${PARTS.map(([name, of]) => `INSERT INTO tallies SELECT '${name}', l.class, l.outcome, sum(${of("l")}) FROM leases l WHERE ${isSettled("l")} GROUP BY l.class, l.outcome;`).join("\n")}`;

/** In a transaction of the caller's, once the tables of jobs and leases are there. */
export function keepTallies(database: Libsql.Database): void {
  const hasError = "SELECT 1 FROM pragma_table_info('leases') WHERE name = 'bandwidthError'";
  if (database.prepare(hasError).get() === undefined)
    database.exec("ALTER TABLE leases ADD COLUMN bandwidthError REAL");
  if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = 'tallies'").get() !== undefined)
    return;
  database.exec(TABLE);
  database.exec(FILL);
}

export const talliesIn = (database: Libsql.Database): readonly Tally[] =>
  database.prepare("SELECT name, class, end, value FROM tallies").all() as readonly Tally[];
