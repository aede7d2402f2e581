/**
 * @file Writes what the follower folds into the history database, in batches, and reads the own history of each job that the fleet has done with.
 *
 * A job's history says what the fleet's does not: its user, how it ended, when its processes ran, what was lost. It is read once the ledger has
 * neither a request nor a lease of the job; a read wakes no worker. A job that has not ended by then, as one that is held or whose workers are away,
 * is looked at again until it has, ever later. One that is in the ledger again is left until the fleet is done with it once more.
 */

import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Folded } from "../follow/fleet-run.ts";
import { isServersFault } from "../follow/history-pages.ts";
import type { Outbox } from "../notices/outbox.ts";
import type { AddedUse } from "../use/use-book.ts";
import type { Cursor, HistoryDatabase, LeaseRecord, NoticeRow, ReadJob } from "./database.ts";

export interface HistoryKeeper {
  /** A run begins: leases that the books still have and the ledger has not are over. Runs may come in any order. */
  readonly begin: (ledger: Ledger, startedAtMs: number) => void;
  /**
   * The run begins that is followed from here on. What the ledger of the moment before had and this one has not is over, whatever became of the run
   * between: it may have ended before it had done with them, as where a fleet is terminated. Jobs that live are given time to tell a lost ledger of themselves.
   */
  readonly follow: (ledger: Ledger, startedAtMs: number) => void;
  readonly fold: (folded: Pick<Folded, "event" | "before" | "ledger">) => void;
  /** The ledger of this moment. */
  readonly now: (ledger: Ledger) => void;
  /** What agents tell of leases, which no history has. */
  readonly used: (uses: readonly AddedUse[]) => void;
  /** Notices that are no part of the history. */
  readonly tell: (rows: readonly NoticeRow[]) => void;
  /** So far everything before was read, too. */
  readonly reached: (cursor: Cursor) => void;
  /** Writes what has gathered, then reads jobs that are due; one call after the other. */
  readonly keep: (nowMs: number) => Promise<void>;
}

/** Reads a job's history; undefined where Temporal has none. */
export type ReadJobHistory = (
  job: string,
) => Promise<Pick<ReadJob, "record" | "runs" | "notices"> | undefined>;

/** Who signed a job, empty where nobody did; fails with the server's trouble. */
export type ReadJobUser = (job: string) => Promise<string>;

export interface KeeperOptions {
  /** Who is told of what; absent: nobody. */
  readonly outbox?: Outbox | undefined;
  /** Absent: jobs have their user once they have ended. */
  readonly readUser?: ReadJobUser;
}

const JOBS_AT_ONCE = 20;
/** The history of a job that ends before this names its user by itself. */
const NAMED_AFTER_MS = 10_000;
/** Of a history that cannot be read. */
const MOST_TRIES = 6;
const AGAIN_MS = 2_000;
const MOST_AGAIN_MS = 3_600_000;
/** Most jobs answer a fleet that has lost its ledger within this time of its start; what is read too early is read again. */
const ANSWERED_MS = 30_000;

export function createKeeper(
  database: HistoryDatabase,
  readJob: ReadJobHistory,
  { outbox, readUser }: KeeperOptions = {},
): HistoryKeeper {
  const leases = new Map<string, LeaseRecord>();
  let notices: NoticeRow[] = [];
  let uses: AddedUse[] = [];
  const due = new Set<string>();
  /** Of the run before, until those that live have had time to tell this one of themselves. */
  const former = new Set<string>();
  let answeredAtMs = 0;
  /** How often the history of a job could not be read since it last could; other tries, of a job that goes on, are no failures. */
  const failures = new Map<string, number>();
  let cursor: Cursor | undefined;
  let ledger: Ledger | undefined;

  function begin(opened: Ledger, startedAtMs: number): void {
    const held = new Set<string>();
    for (const lease of opened.leases.values()) {
      const record = leaseRecord(lease, opened);
      held.add(keyOf(record));
      const isFreed = lease.state === "vacating";
      put({ ...record, ...(isFreed ? { freedByMs: startedAtMs } : { heldMs: startedAtMs }) });
    }
    for (const record of database.open(startedAtMs)) {
      if (held.has(keyOf(record))) continue;
      put({ ...record, freedMs: startedAtMs });
      due.add(record.job);
    }
  }

  function follow(opened: Ledger, startedAtMs: number): void {
    begin(opened, startedAtMs);
    const { size } = former;
    if (ledger !== undefined) leave(ledger, opened, { atMs: startedAtMs, done: former });
    // Runs may follow each other faster than that.
    if (former.size > size) answeredAtMs = startedAtMs + ANSWERED_MS;
    ledger = opened;
  }

  function fold({
    event,
    before,
    ledger: after,
  }: Pick<Folded, "event" | "before" | "ledger">): void {
    if (outbox !== undefined) notices.push(...outbox.ofEvent({ event, before, ledger: after }));
    if (before.leases !== after.leases)
      for (const [id, lease] of after.leases)
        if (before.leases.get(id) !== lease) {
          const record = leaseRecord(lease, after);
          if (lease.state !== "vacating") put({ ...record, heldMs: event.nowMs });
          else if (before.leases.get(id)?.state === "vacating") put(record);
          else put({ ...record, freedMs: event.nowMs });
        }
    leave(before, after, { atMs: event.nowMs, done: due });
  }

  /** Frees what is gone and adds its job to those that may be done. */
  function leave(
    before: Ledger,
    after: Ledger,
    { atMs, done }: { readonly atMs: number; readonly done: Set<string> },
  ): void {
    if (before.leases !== after.leases)
      for (const [id, lease] of before.leases)
        if (!after.leases.has(id)) {
          // A vacating lease was freed when it turned so.
          if (lease.state !== "vacating") put({ ...leaseRecord(lease, before), freedMs: atMs });
          done.add(lease.jobId);
        }
    if (before.requests !== after.requests)
      for (const job of before.requests.keys()) if (!after.requests.has(job)) done.add(job);
  }

  function put(record: LeaseRecord): void {
    const key = keyOf(record);
    const former = leases.get(key);
    const heldMs = Math.max(record.heldMs ?? -Infinity, former?.heldMs ?? -Infinity);
    const freedMs = former?.freedMs ?? null;
    leases.set(key, {
      ...record,
      freedMs: record.freedMs ?? (freedMs !== null && freedMs < heldMs ? null : freedMs),
      freedByMs: record.freedByMs ?? former?.freedByMs ?? null,
      heldMs: heldMs === -Infinity ? null : heldMs,
    });
  }

  async function keep(nowMs: number): Promise<void> {
    // What is folded meanwhile is put by in the same way, so nothing is awaited between the last answer and the writing.
    if (outbox !== undefined)
      do notices.push(...(await outbox.ofJobs(ledger, nowMs)));
      while (outbox.hasMore());
    if (nowMs >= answeredAtMs) {
      for (const job of former) due.add(job);
      former.clear();
    }
    const done = ledger === undefined ? [...due] : withoutPlace(due, ledger);
    if (outbox !== undefined && ledger !== undefined)
      notices.push(...outbox.ofQueue(ledger, nowMs));
    if (leases.size + uses.length + notices.length + done.length > 0 || cursor !== undefined)
      database.write({
        leases: [...leases.values()],
        uses,
        notices,
        due: done.map((job) => ({ job, tries: 0, notBeforeMs: nowMs })),
        ...(cursor !== undefined && { cursor }),
      });
    leases.clear();
    uses = [];
    notices = [];
    due.clear();
    cursor = undefined;
    const { read, trouble } = await readDue(nowMs);
    if (read.length > 0) database.writeJobs(read);
    if (trouble !== undefined) throw trouble;
    if (readUser !== undefined) await nameUsers(readUser, nowMs);
  }

  /** Of jobs that hold GPUs for a while; once for each job. */
  async function nameUsers(read: ReadJobUser, nowMs: number): Promise<void> {
    const jobs = database.unnamed(nowMs - NAMED_AFTER_MS, JOBS_AT_ONCE);
    const users = await Promise.all(jobs.map(async (job) => ({ job, user: await read(job) })));
    if (users.length > 0) database.name(users);
  }

  /** A job that cannot be read is put back behind the others, so it holds none of them up. */
  async function readDue(nowMs: number): Promise<{
    readonly read: readonly ReadJob[];
    readonly trouble?: Error;
  }> {
    const read: ReadJob[] = [];
    let trouble: Error | undefined;
    const jobs = database.due(nowMs, JOBS_AT_ONCE);
    // What has come back is due once it leaves again: those that hold GPUs for weeks would be read all the time.
    const named = new Set(jobs.map(({ job }) => job));
    const gone = ledger === undefined ? named : new Set(withoutPlace(named, ledger));
    for (const { job, tries } of jobs) {
      if (!gone.has(job)) {
        read.push({ job, runs: [] });
        continue;
      }
      const waitMs = Math.min(AGAIN_MS * 2 ** tries, MOST_AGAIN_MS);
      const again = { job, tries: tries + 1, notBeforeMs: nowMs + waitMs };
      try {
        const found = await readJob(job);
        failures.delete(job);
        const isOver = found === undefined || found.record !== undefined;
        const told = found?.record && (await outbox?.ofEnd(found.record));
        read.push({
          ...{ job, runs: [], ...found },
          notices: [...(found?.notices ?? []), ...(told ?? [])],
          ...(!isOver && { again }),
        });
      } catch (error) {
        const why = error instanceof Error ? error.message : String(error);
        trouble = new Error(`the history of ${job} cannot be read: ${why}`, { cause: error });
        const isServers = isServersFault(error);
        // The server's trouble is none of the job's, and the next job would only wait for it, too.
        if (isServers) read.push({ job, runs: [], again: { ...again, tries } });
        else read.push({ job, runs: [], ...(isToTry(job) && { again }) });
        if (isServers) break;
      }
    }
    return { read, ...(trouble && { trouble }) };
  }

  /** Whether a history that could not be read is worth another try. */
  function isToTry(job: string): boolean {
    const count = (failures.get(job) ?? 0) + 1;
    if (count <= MOST_TRIES) failures.set(job, count);
    else failures.delete(job);
    return count <= MOST_TRIES;
  }

  return {
    begin,
    follow,
    fold,
    now: (present) => void (ledger = present),
    used: (added) => void uses.push(...added),
    tell: (rows) => void notices.push(...rows),
    reached: (now) => void (cursor = now),
    keep,
  };
}

/** Those of which the ledger has neither a request nor a lease. */
function withoutPlace(jobs: ReadonlySet<string>, ledger: Ledger): readonly string[] {
  if (jobs.size === 0) return [];
  const requests: ReadonlyMap<string, unknown> = ledger.requests;
  const holders = new Set<string>([...ledger.leases.values()].map(({ jobId }) => jobId));
  return [...jobs].filter((job) => !requests.has(job) && !holders.has(job));
}

const keyOf = ({ job, run, lease }: LeaseRecord): string => `${job} ${run} ${lease}`;

function leaseRecord(lease: Lease, { shape }: Ledger): LeaseRecord {
  const { jobId: job, runId: run, id, seq: attempt, tenant, gpus, grantedAtMs, eviction } = lease;
  const clusters = [...new Set(gpus.map(({ host }) => host.split("/")[0] ?? ""))];
  const [first] = gpus;
  const host = shape.clusters
    .find((cluster) => cluster.id === clusters[0])
    ?.hosts.find((one) => one.id === first?.host);
  return {
    ...{ job, run, lease: id, attempt, tenant },
    class: lease.class,
    gpus: gpuCountOf(gpus),
    gpuType: host?.gpuType ?? "",
    clusters: clusters.join(","),
    grantedMs: grantedAtMs,
    freedMs: null,
    lostGpuSeconds: eviction?.lostGpuSeconds ?? 0,
  };
}
