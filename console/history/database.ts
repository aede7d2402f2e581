/**
 * @file The history database: what each lease of a fleet held, how each job ended, how far the fleet's history was read, and who is still to be told
 * of what. One file (SQLite, by libsql), written by a console, read by verbs at the same time.
 *
 * Rows are upserted by (job, run, lease), so reading a part of the history again changes nothing, nor does a second console that writes the same. Times are milliseconds since 1970. The rows of
 * a batch, the jobs whose own histories are still to be read, and the cursor are written in one transaction.
 */

import type Libsql from "libsql";
import { closeSync, existsSync, openSync } from "node:fs";
import { giveToFolderOwner, PRIVATE_FILE } from "../../access/private-files.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { AddedUse } from "../use/use-book.ts";
import { createStatements } from "./kept-statements.ts";
import { keepTallies, talliesIn, type Tally } from "./tallies.ts";

export interface LeaseRecord {
  readonly job: string;
  readonly run: string;
  readonly lease: string;
  readonly attempt: number;
  readonly tenant: string;
  readonly class: string;
  readonly gpus: number;
  readonly gpuType: string;
  readonly clusters: string;
  readonly grantedMs: number;
  /** When the fleet took it back: a lease whose job is gone is freed then, though hosts may still vacate. Null while it is held. */
  readonly freedMs: number | null;
  /** Not held after this, where no `freedMs` is known. */
  readonly freedByMs?: number | null;
  /** It was held at this time, so whatever was taken for its end before was none: a fleet that lost its ledger was told of it again. */
  readonly heldMs?: number | null;
  /** GPU-seconds, as the fleet estimated them when it evicted the lease. */
  readonly lostGpuSeconds: number;
}

export interface JobRecord {
  readonly job: string;
  readonly run: string;
  readonly name: string;
  readonly tenant: string;
  readonly class: string;
  readonly user: string;
  readonly gpus: number;
  readonly tasks: number;
  readonly submittedMs: number;
  readonly endedMs: number;
  readonly outcome: string;
  readonly why: string;
}

/** What a job's own history says of one of its leases. */
export interface RunRecord {
  readonly job: string;
  readonly lease: string;
  readonly startedMs: number | null;
  readonly endedMs: number | null;
  readonly lostGpuSeconds: number | null;
  /** |measured ÷ expected − 1| of its bandwidth; null where either is unknown. */
  readonly bandwidthError: number | null;
  readonly outcome: string;
}

/** Who signed a job that has not ended; empty where nobody did. */
export interface JobUser {
  readonly job: string;
  readonly user: string;
}

export interface Cursor {
  readonly run: string;
  readonly event: number;
  readonly atMs: number;
}

export interface DueJob {
  readonly job: string;
  readonly tries: number;
  readonly notBeforeMs: number;
}

export interface NoticeRow {
  readonly id: string;
  readonly target: string;
  readonly atMs: number;
  readonly body: string;
}

export interface DueNotice extends NoticeRow {
  readonly tries: number;
}

export interface SentNotice {
  readonly id: string;
  readonly target: string;
  readonly tries: number;
  /** Absent: it is tried again. */
  readonly doneMs?: number;
  readonly notBeforeMs?: number;
}

export interface Batch {
  readonly leases: readonly LeaseRecord[];
  readonly uses?: readonly AddedUse[];
  readonly notices?: readonly NoticeRow[];
  readonly due: readonly DueJob[];
  readonly cursor?: Cursor;
}

export interface ReadJob {
  readonly job: string;
  /** Undefined where there is nothing to keep. */
  readonly record?: JobRecord;
  readonly runs: readonly RunRecord[];
  readonly notices?: readonly NoticeRow[];
  /** Absent when its history needs no further reading. */
  readonly again?: DueJob;
}

export interface HistoryDatabase {
  readonly cursor: () => Cursor | undefined;
  readonly write: (batch: Batch) => void;
  /** Leases that are held by the books, granted before this time. */
  readonly open: (grantedBeforeMs: number) => readonly LeaseRecord[];
  /** The longest due first; half of them have not been tried, as far as there are such: of those that have, of jobs that go on, there are many at times. */
  readonly due: (nowMs: number, most: number) => readonly DueJob[];
  /** Jobs that hold leases granted before this time, and whose user is not known. */
  readonly unnamed: (grantedBeforeMs: number, most: number) => readonly string[];
  readonly name: (users: readonly JobUser[]) => void;
  readonly writeJobs: (jobs: readonly ReadJob[]) => void;
  /** Since when there is somebody to be told; the first call decides. */
  readonly noticesSince: (nowMs: number) => number;
  readonly dueNotices: (
    target: string,
    limits: { readonly nowMs: number; readonly most: number },
  ) => readonly DueNotice[];
  /** Whether it was still due: it is the caller's to send until then, and due again afterwards. */
  readonly claimNotice: (claim: {
    readonly id: string;
    readonly target: string;
    readonly nowMs: number;
    readonly untilMs: number;
  }) => boolean;
  readonly noteSent: (sent: SentNotice) => void;
  /** Those whom jobs name, as far as something is due to them: in the order of their names, from behind `after` on and round. */
  readonly dueAddresses: (limits: {
    readonly nowMs: number;
    readonly most: number;
    readonly after: string;
  }) => readonly string[];
  /** Forgets what was done with before this time, and what is older and was never done with. */
  readonly forgetNotices: (beforeMs: number) => void;
  /** Rows of jobs and leases that were over before this time; what a job's history is still to be read for stays. */
  readonly countEnded: (beforeMs: number) => number;
  /** Removes them, a thousand in a transaction, and gives the file's free pages back where they are a quarter of it. */
  readonly forgetEnded: (beforeMs: number) => void;
  /** Over all that was ever written, what was forgotten included; only of a file that was opened for writing. */
  readonly tallies: () => readonly Tally[];
  readonly all: <Row>(query: string, values: Readonly<Record<string, unknown>>) => readonly Row[];
  readonly close: () => void;
}

const SCHEMA = `
CREATE TABLE IF NOT EXISTS owner (one INTEGER PRIMARY KEY CHECK (one = 1), namespace TEXT NOT NULL, fleet TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cursor (one INTEGER PRIMARY KEY CHECK (one = 1), run TEXT NOT NULL, event INTEGER NOT NULL, atMs INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS due (job TEXT PRIMARY KEY, tries INTEGER NOT NULL, notBeforeMs INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS leases (
  job TEXT NOT NULL, run TEXT NOT NULL, lease TEXT NOT NULL, attempt INTEGER NOT NULL, tenant TEXT NOT NULL, class TEXT NOT NULL,
  gpus INTEGER NOT NULL, gpuType TEXT NOT NULL, clusters TEXT NOT NULL, grantedMs INTEGER NOT NULL, freedMs INTEGER,
  lostGpuSeconds REAL NOT NULL, startedMs INTEGER, endedMs INTEGER, outcome TEXT, PRIMARY KEY (job, run, lease)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS leases_by_time ON leases (grantedMs);
CREATE INDEX IF NOT EXISTS leases_held ON leases (grantedMs) WHERE freedMs IS NULL;
CREATE TABLE IF NOT EXISTS jobs (
  job TEXT NOT NULL, run TEXT NOT NULL, name TEXT NOT NULL, tenant TEXT NOT NULL, class TEXT NOT NULL, user TEXT NOT NULL, gpus INTEGER NOT NULL,
  tasks INTEGER NOT NULL, submittedMs INTEGER NOT NULL, endedMs INTEGER NOT NULL, outcome TEXT NOT NULL, why TEXT NOT NULL,
  PRIMARY KEY (job, run)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS jobs_by_end ON jobs (endedMs);
CREATE TABLE IF NOT EXISTS notified (one INTEGER PRIMARY KEY CHECK (one = 1), sinceMs INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS notices (
  id TEXT NOT NULL, target TEXT NOT NULL, atMs INTEGER NOT NULL, body TEXT NOT NULL, tries INTEGER NOT NULL, notBeforeMs INTEGER NOT NULL,
  doneMs INTEGER, PRIMARY KEY (id, target)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS notices_by_target ON notices (target, doneMs, atMs);
CREATE INDEX IF NOT EXISTS notices_waiting ON notices (target, notBeforeMs) WHERE doneMs IS NULL;
`;
/** Tables that files of former releases have not; readers find them empty. */
const ADDED_TABLES = ["uses", "users"] as const;
const ADDED_SCHEMA: Readonly<Record<(typeof ADDED_TABLES)[number], string>> = {
  uses: `TABLE IF NOT EXISTS uses (
    job TEXT NOT NULL, run TEXT NOT NULL, lease TEXT NOT NULL, usedMs REAL NOT NULL, toldMs REAL NOT NULL,
    untilMs REAL NOT NULL DEFAULT 0, PRIMARY KEY (job, run, lease))`,
  users: "TABLE IF NOT EXISTS users (job TEXT PRIMARY KEY, user TEXT NOT NULL)",
};
const VERSION = 2;
/** Another process may be writing. */
const BUSY_MS = 5_000;

/** Whose history a file has. */
export interface HistoryOwner {
  readonly namespace: string;
  readonly fleet: string;
}

/**
 * `isNew`: it may be made. `owner`: who writes it. Fails with a reason where this platform has no libsql, the file is none of ours, or it has the
 * history of another fleet.
 */
export async function openHistory(
  file: string,
  { isNew, owner }: { readonly isNew: boolean; readonly owner?: HistoryOwner },
): Promise<HistoryDatabase> {
  if (!isNew && !existsSync(file))
    throw new OrbweaverError(
      "NOT_FOUND",
      `there is no history database at ${file}. The console of \`orbweaver up\` writes one; \`orbweaver console --history FILE\` does, too.`,
    );
  const { default: Database } = await import("libsql");
  try {
    // Who ran what is for the eyes of its owner; the files beside it are made with the same right.
    if (isNew && !existsSync(file)) {
      closeSync(openSync(file, "a", PRIVATE_FILE));
      giveToFolderOwner(file);
    }
    const database = new Database(file, { readonly: !isNew });
    database.exec(`PRAGMA busy_timeout = ${String(BUSY_MS)}`);
    const opened = prepared(database, isNew);
    if (owner !== undefined) claim(database, file, owner);
    return opened;
  } catch (error) {
    if (error instanceof OrbweaverError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError("BAD_INPUT", `${file} is no history database: ${why}`, {
      cause: error,
    });
  }
}

/** Lease ids of two fleets are alike, so their rows must not meet in one file. */
function claim(database: Libsql.Database, file: string, owner: HistoryOwner): void {
  database
    .prepare("INSERT OR IGNORE INTO owner (one, namespace, fleet) VALUES (1, :namespace, :fleet)")
    .run(owner);
  const found = database.prepare("SELECT namespace, fleet FROM owner").get() as HistoryOwner;
  if (found.namespace === owner.namespace && found.fleet === owner.fleet) return;
  database.close();
  throw new OrbweaverError(
    "BAD_INPUT",
    `${file} has the history of fleet ${found.fleet} in namespace ${found.namespace}, not of fleet ${owner.fleet} in namespace ${owner.namespace}. Name another file with --history.`,
  );
}

function prepared(database: Libsql.Database, isNew: boolean): HistoryDatabase {
  const { user_version: version } = database.prepare("PRAGMA user_version").get() as {
    readonly user_version: number;
  };
  if (version > VERSION)
    throw new RangeError(`a later release wrote it (version ${String(version)})`);
  const all = <Row>(query: string, values: Readonly<Record<string, unknown>>): readonly Row[] =>
    database.prepare(query).all(values) as readonly Row[];
  if (isNew) {
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;");
    // Another console may open it at the same time.
    database
      .transaction(() => {
        database.exec(SCHEMA);
        for (const table of ADDED_TABLES) database.exec(`CREATE ${ADDED_SCHEMA[table]}`);
        const hasUntil = "SELECT 1 FROM pragma_table_info('uses') WHERE name = 'untilMs'";
        if (all(hasUntil, {}).length === 0)
          database.exec("ALTER TABLE uses ADD COLUMN untilMs REAL NOT NULL DEFAULT 0");
        keepTallies(database);
        database.exec(`PRAGMA user_version = ${String(VERSION)}`);
      })
      .immediate();
  } else {
    for (const table of ADDED_TABLES)
      if (database.prepare("SELECT 1 FROM sqlite_master WHERE name = ?").get(table) === undefined)
        database.exec(`CREATE TEMP ${ADDED_SCHEMA[table]}`);
  }
  const run = createStatements(database);

  function write({ leases, uses = [], notices = [], due, cursor }: Batch): void {
    database.transaction(() => {
      for (const lease of leases) run(PUT_LEASE, { freedByMs: null, heldMs: null, ...lease });
      for (const use of uses) run(ADD_USE, use);
      for (const notice of notices) run(PUT_NOTICE, notice);
      for (const job of due) run(PUT_DUE, job);
      if (cursor !== undefined) run(PUT_CURSOR, cursor);
    })();
  }

  function writeJobs(jobs: readonly ReadJob[]): void {
    database.transaction(() => {
      for (const { job, record, runs, notices = [], again } of jobs) {
        if (record !== undefined) {
          run(PUT_JOB, record);
          if (record.user !== "") run("DELETE FROM users WHERE job = :job", { job });
        }
        for (const notice of notices) run(PUT_NOTICE, notice);
        for (const one of runs) run(PUT_RUN, one);
        if (again === undefined) run("DELETE FROM due WHERE job = :job", { job });
        else run(PUT_DUE, again);
      }
    })();
  }

  return {
    cursor: () => all<Cursor>("SELECT run, event, atMs FROM cursor", {})[0],
    write,
    writeJobs,
    open: (beforeMs) =>
      all<LeaseRecord>("SELECT * FROM leases WHERE freedMs IS NULL AND grantedMs < :beforeMs", {
        beforeMs,
      }),
    due: (nowMs, most) => all<DueJob>(DUE_JOBS, { nowMs, most }),
    unnamed: (beforeMs, most) =>
      all<{ job: string }>(UNNAMED, { beforeMs, most }).map(({ job }) => job),
    name: (users) =>
      database.transaction(() => {
        for (const user of users) run("INSERT OR REPLACE INTO users VALUES (:job, :user)", user);
      })(),
    noticesSince(nowMs) {
      run("INSERT OR IGNORE INTO notified (one, sinceMs) VALUES (1, :nowMs)", { nowMs });
      return all<{ sinceMs: number }>("SELECT sinceMs FROM notified", {})[0]?.sinceMs ?? nowMs;
    },
    dueNotices: (target, limits) => all<DueNotice>(DUE_NOTICES, { target, ...limits }),
    dueAddresses: (limits) =>
      all<{ target: string }>(DUE_ADDRESSES, limits).map(({ target }) => target),
    claimNotice: (claim) => run(CLAIM_NOTICE, claim).changes > 0,
    noteSent: (sent) => void run(NOTE_SENT, { doneMs: null, notBeforeMs: 0, ...sent }),
    forgetNotices: (beforeMs) =>
      void run("DELETE FROM notices WHERE coalesce(doneMs, atMs) < :beforeMs", { beforeMs }),
    countEnded: (beforeMs) =>
      all<{ count: number }>(
        `SELECT (SELECT count(*) FROM jobs WHERE ${OLD_JOB}) + (SELECT count(*) FROM leases WHERE ${OLD_LEASE}) AS count`,
        { beforeMs },
      )[0]?.count ?? 0,
    forgetEnded(beforeMs) {
      for (const query of [FORGET_JOBS, FORGET_LEASES])
        while (run(query, { beforeMs }).changes > 0);
      for (const query of [FORGET_USES, FORGET_USERS]) database.exec(query);
      const [{ free, pages } = { free: 0, pages: 0 }] = all<{ free: number; pages: number }>(
        "SELECT freelist_count AS free, page_count AS pages FROM pragma_freelist_count, pragma_page_count",
        {},
      );
      if (free > 0 && free * 4 >= pages) database.exec("VACUUM");
    },
    tallies: () => talliesIn(database),
    all,
    close: () => void database.close(),
  };
}

const PUT_LEASE = `
INSERT INTO leases (job, run, lease, attempt, tenant, class, gpus, gpuType, clusters, grantedMs, freedMs, lostGpuSeconds)
VALUES (:job, :run, :lease, :attempt, :tenant, :class, :gpus, :gpuType, :clusters, :grantedMs, coalesce(:freedMs, :freedByMs), :lostGpuSeconds)
ON CONFLICT DO UPDATE SET
  freedMs = coalesce(:freedMs, CASE WHEN freedMs < :heldMs AND outcome IS NULL THEN NULL ELSE freedMs END, :freedByMs),
  lostGpuSeconds = CASE WHEN endedMs IS NULL THEN max(lostGpuSeconds, excluded.lostGpuSeconds) ELSE lostGpuSeconds END`;
/** Of what is added, the share of its time that is behind all that was added before, by this console or another one with the same file. */
const NEW_SHARE = "max(0, :untilMs - max(:fromMs, untilMs)) / (:untilMs - :fromMs + 0.0)";
const ADD_USE = `
INSERT INTO uses (job, run, lease, usedMs, toldMs, untilMs) VALUES (:job, :run, :lease, :usedMs, :toldMs, :untilMs)
ON CONFLICT DO UPDATE SET usedMs = usedMs + excluded.usedMs * ${NEW_SHARE}, toldMs = toldMs + excluded.toldMs * ${NEW_SHARE},
  untilMs = max(untilMs, excluded.untilMs)`;
const UNNAMED = `
SELECT DISTINCT job FROM leases WHERE freedMs IS NULL AND grantedMs < :beforeMs
AND job NOT IN (SELECT job FROM users) ORDER BY job LIMIT :most`;
const PUT_RUN = `
UPDATE leases SET startedMs = :startedMs, endedMs = :endedMs, outcome = :outcome, lostGpuSeconds = coalesce(:lostGpuSeconds, lostGpuSeconds),
  bandwidthError = :bandwidthError
WHERE job = :job AND lease = :lease`;
const PUT_JOB = `
INSERT INTO jobs (job, run, name, tenant, class, user, gpus, tasks, submittedMs, endedMs, outcome, why)
VALUES (:job, :run, :name, :tenant, :class, :user, :gpus, :tasks, :submittedMs, :endedMs, :outcome, :why)
ON CONFLICT DO UPDATE SET endedMs = excluded.endedMs, outcome = excluded.outcome, why = excluded.why`;
const DUE_JOBS = `
SELECT job, tries, notBeforeMs FROM (
  SELECT * FROM due WHERE notBeforeMs <= :nowMs
  ORDER BY row_number() OVER (PARTITION BY tries > 0 ORDER BY notBeforeMs, job), tries LIMIT :most)
ORDER BY notBeforeMs, job`;
const PUT_DUE = `
INSERT INTO due (job, tries, notBeforeMs) VALUES (:job, :tries, :notBeforeMs)
ON CONFLICT DO UPDATE SET tries = excluded.tries, notBeforeMs = excluded.notBeforeMs`;
const PUT_CURSOR = `
INSERT INTO cursor (one, run, event, atMs) VALUES (1, :run, :event, :atMs)
ON CONFLICT DO UPDATE SET run = excluded.run, event = excluded.event, atMs = excluded.atMs`;
const PUT_NOTICE = `
INSERT OR IGNORE INTO notices (id, target, atMs, body, tries, notBeforeMs) VALUES (:id, :target, :atMs, :body, 0, 0)`;
const DUE_NOTICES = `
SELECT id, target, atMs, body, tries FROM notices
WHERE target = :target AND doneMs IS NULL AND notBeforeMs <= :nowMs ORDER BY atMs, id LIMIT :most`;
/** The names of the fleet file's targets have no spaces. */
const DUE_ADDRESSES = `
SELECT DISTINCT target FROM notices WHERE doneMs IS NULL AND notBeforeMs <= :nowMs AND instr(target, ' ') > 0
ORDER BY target <= :after, target LIMIT :most`;
const CLAIM_NOTICE = `
UPDATE notices SET notBeforeMs = :untilMs
WHERE id = :id AND target = :target AND doneMs IS NULL AND notBeforeMs <= :nowMs`;
/** What was sent stays by its id, without its words. */
const NOTE_SENT = `
UPDATE notices SET tries = :tries, doneMs = :doneMs, notBeforeMs = :notBeforeMs, body = CASE WHEN :doneMs IS NULL THEN body ELSE '' END
WHERE id = :id AND target = :target`;
const OLD_JOB = `
endedMs < :beforeMs AND job NOT IN (SELECT job FROM due)
AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.job = jobs.job AND leases.freedMs IS NULL)`;
const OLD_LEASE = `
freedMs IS NOT NULL AND max(freedMs, coalesce(endedMs, 0)) < :beforeMs AND job NOT IN (SELECT job FROM due)`;
const FORGET_JOBS = `
DELETE FROM jobs WHERE (job, run) IN (SELECT job, run FROM jobs WHERE ${OLD_JOB} LIMIT 1000)`;
const FORGET_LEASES = `
DELETE FROM leases WHERE (job, run, lease) IN (SELECT job, run, lease FROM leases WHERE ${OLD_LEASE} LIMIT 1000)`;
const FORGET_USES = `
DELETE FROM uses WHERE NOT EXISTS (SELECT 1 FROM leases l WHERE l.job = uses.job AND l.run = uses.run AND l.lease = uses.lease)`;
const FORGET_USERS = "DELETE FROM users WHERE job NOT IN (SELECT job FROM leases)";
