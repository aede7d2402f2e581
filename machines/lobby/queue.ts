/**
 * @file The rows of one class in a lobby: the first in memory, sorted, the rest as sorted runs in the store. A small log-structured merge tree.
 *
 * What exceeds the memory's share goes to the store from the end of the order, a page at a time; runs are read back once their rows may be
 * the next to be called. Too many runs are merged, the smallest first. Jobs that have left are taken out of memory at once, and of the store when
 * they are read back or merged. Cost: O(rows in memory) for a batch of words; each row is written O(log rows) times.
 */

import type { JobClass } from "../../domain/job/job.ts";
import { byCall, endOfEra, eraOf, type LobbyKey } from "../../domain/lease/lobby-order.ts";
import type { FirstWaiting, LobbyRow } from "../../domain/lease/lobby.ts";
import {
  leaverBytes,
  rowBytes,
  type CarriedQueue,
  type Leaver,
  type OpenRun,
  type StoredRun,
  packRow,
  unpackRow,
} from "../../protocol/lobby-contract.ts";
import { lowestKey, mergeSorted, rankIn } from "./order.ts";

export interface Queue {
  readonly class: JobClass;
  /** In the order of calling; no two of one run of a job. */
  readonly rows: readonly LobbyRow[];
  readonly runs: readonly OpenRun[];
  /** On their way to the store. */
  readonly leaving: readonly LobbyRow[];
  /** Jobs that have left while their rows may lie in the store, by `keyOf`. */
  readonly left: ReadonlyMap<string, Leaver>;
  /** Keys of more of them in the store, and how many. */
  readonly storedLeavers: readonly string[];
  readonly storedLeaverCount: number;
}

/** Of a queue: rows in memory may take so much, jobs that have left, and a page of the store. */
const MAX_ROWS_BYTES = 96 * 1024;
const MAX_LEFT_BYTES = 64 * 1024;
export const PAGE_BYTES = 48 * 1024;
const MAX_RUNS = 16;
const MERGED_RUNS = 8;
/** Leavers in the store that are worth a pass over all rows there, at least. */
const MIN_STORED_LEAVERS = 4_000;
/** Runs that are read back at once. */
const LOADED_RUNS = 4;

export const openQueue = (name: JobClass): Queue => ({
  class: name,
  rows: [],
  runs: [],
  leaving: [],
  left: new Map(),
  storedLeavers: [],
  storedLeaverCount: 0,
});

/** One run of a job. */
export const keyOf = ({ jobId, runId }: Pick<LobbyRow, "jobId" | "runId">): string =>
  `${jobId} ${runId}`;

/** Rows that lie only in the store, or on the way there. */
export const storedRows = ({ runs, leaving }: Queue): number =>
  runs.reduce((sum, { count, at }) => sum + count - at, leaving.length);

/** At least 1 where a row is left: a job that has left may be counted for a while, or twice. */
export function waitingIn(queue: Queue): number {
  const stored = storedRows(queue);
  const leavers = queue.left.size + queue.storedLeaverCount;
  return queue.rows.length + Math.max(Math.min(stored, 1), stored - leavers);
}

/** The next to be called; undefined where rows must be read back first, or nobody waits. */
export function headOf({ rows, runs, leaving }: Queue): LobbyRow | undefined {
  const [front] = rows;
  if (front === undefined) return undefined;
  const [kept = front] = leaving;
  const isFirst = runs.every(({ bound }) => byCall(front, bound) <= 0) && byCall(front, kept) <= 0;
  return isFirst ? front : undefined;
}

/** Whether a row of this queue may have to be read back before the next call. */
export const isBehindStore = (queue: Queue): boolean =>
  storedRows(queue) > 0 && headOf(queue) === undefined;

/** The runs that hold up the next call, those with the first rows first. */
export function runsToLoad({ rows, runs }: Queue): readonly OpenRun[] {
  const [front] = rows;
  return runs
    .filter(({ bound }) => front === undefined || byCall(bound, front) < 0)
    .sort((a, b) => byCall(a.bound, b.bound))
    .slice(0, LOADED_RUNS);
}

/** The last rows in memory, where there are too many: at most a page. */
export function rowsToKeep({ rows }: Queue): readonly LobbyRow[] {
  let bytes = rows.reduce((sum, row) => sum + rowBytes(row), 0);
  if (bytes <= MAX_ROWS_BYTES) return [];
  const most = bytes - PAGE_BYTES;
  let first = rows.length;
  for (let row = rows[first - 1]; row !== undefined; row = rows[first - 1]) {
    bytes -= rowBytes(row);
    if (bytes < most && first < rows.length) break;
    first -= 1;
  }
  return rows.slice(first);
}

/** Whether the rows in memory are few enough to be carried to the next run. */
export const isSmall = ({ rows }: Queue): boolean =>
  rows.reduce((sum, row) => sum + rowBytes(row), 0) <= 2 * MAX_ROWS_BYTES;

export function leaversToKeep(queue: Queue): readonly Leaver[] {
  let bytes = 0;
  for (const leaver of queue.left.values()) bytes += leaverBytes(leaver);
  return bytes <= MAX_LEFT_BYTES ? [] : [...queue.left.values()];
}

/** Nothing where no merge is worth it. */
export function runsToMerge({ runs, storedLeaverCount, ...queue }: Queue): readonly OpenRun[] {
  const stored = storedRows({ runs, storedLeaverCount, ...queue });
  if (runs.length > 0 && storedLeaverCount >= Math.max(MIN_STORED_LEAVERS, stored / 2)) return runs;
  if (runs.length <= MAX_RUNS) return [];
  return [...runs]
    .sort((a, b) => a.count - a.at - (b.count - b.at) || byCall(a.bound, b.bound))
    .slice(0, MERGED_RUNS);
}

/** With a run from the store; a run without rows is none. */
export function withRun(queue: Queue, run: StoredRun): Queue {
  const bound = lowestKey(run);
  if (bound === undefined) return queue;
  return { ...queue, runs: [...queue.runs, { ...run, at: 0, bound }] };
}

/** With rows that were read back, without those that have left. */
export function withLoaded(queue: Queue, directory: string, loaded: readonly LobbyRow[]): Queue {
  const left = new Map(queue.left);
  const there = loaded.filter((row) => {
    const [, , seq = -1] = left.get(keyOf(row)) ?? [];
    if (seq < row.seq) return true;
    left.delete(keyOf(row));
    return false;
  });
  const runs = queue.runs.flatMap((run) => {
    if (run.directory !== directory) return [run];
    const at = run.at + loaded.length;
    const bound = loaded.at(-1) ?? run.bound;
    return at < run.count && loaded.length > 0 ? [{ ...run, at, bound: keyOfOrder(bound) }] : [];
  });
  return { ...queue, rows: withRows(queue.rows, there), left, runs };
}

const keyOfOrder = ({ round, priority, submittedAtMs, jobId }: LobbyKey) => ({
  round,
  priority,
  submittedAtMs,
  ...(jobId !== undefined && { jobId }),
});

/** A later request of a run of a job stands instead of an earlier one, a later round instead of an earlier. */
export function withRows(
  rows: readonly LobbyRow[],
  more: readonly LobbyRow[],
): readonly LobbyRow[] {
  if (more.length === 0) return rows;
  const newest = new Map<string, LobbyRow>();
  for (const row of more) {
    const key = keyOf(row);
    if (isNewer(row, newest.get(key))) newest.set(key, row);
  }
  const kept = rows.filter((row) => {
    const key = keyOf(row);
    const other = newest.get(key);
    if (other === undefined) return true;
    if (isNewer(other, row)) return false;
    newest.delete(key);
    return true;
  });
  return mergeSorted(kept, [...newest.values()].sort(byCall));
}

export const isNewer = (row: LobbyRow, than: LobbyRow | undefined): boolean =>
  than === undefined || row.seq > than.seq || (row.seq === than.seq && row.round >= than.round);

/** Rows of the queue that come before the key, about. */
export function placeIn({ rows, runs }: Queue, key: LobbyKey): number {
  const inMemory = rows.reduce((sum, row) => sum + (byCall(row, key) < 0 ? 1 : 0), 0);
  return runs.reduce((sum, run) => sum + Math.max(0, rankIn(run, key) - run.at), inMemory);
}

/** Who is called in next; undefined where nobody waits. Where rows must be read back first, its round is at least that. */
export function firstWaiting(queue: Queue): FirstWaiting | undefined {
  if (waitingIn(queue) === 0) return undefined;
  const { rows, leaving, runs } = queue;
  const fronts = [rows.at(0), leaving.at(0), ...runs.map(({ bound }) => bound)];
  const round = Math.min(...fronts.flatMap((front) => front?.round ?? []));
  const end = endOfEra(eraOf(round));
  const beside = leaving.filter((row) => byCall(row, end) < 0).length;
  return { round, count: Math.max(1, placeIn(queue, end) + beside) };
}

export const carriedQueue = (queue: Queue): CarriedQueue => ({
  class: queue.class,
  rows: mergeSorted(queue.rows, queue.leaving).map(packRow),
  runs: queue.runs,
  leavers: [...queue.left.values()],
  storedLeavers: queue.storedLeavers,
  storedLeaverCount: queue.storedLeaverCount,
});

export const queueOf = ({ rows, leavers, ...carried }: CarriedQueue): Queue => ({
  ...carried,
  rows: rows.map(unpackRow),
  leaving: [],
  left: new Map(
    leavers.map((leaver) => [keyOf({ jobId: leaver[0], runId: leaver[1] }), leaver] as const),
  ),
});
