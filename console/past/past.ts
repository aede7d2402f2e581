/**
 * @file What the console shows of the past: the ledger at an instant as a snapshot for browsers, and how far back it goes.
 *
 * The newest events are kept in memory, as far as there is room. An instant before those is shown from its run, read again from the archive or
 * Temporal; the runs that were read last stay. So a fleet's size bounds how soon an old instant is shown, and not whether.
 */

import type { Facts, PastAnswer } from "../../page/wire.ts";
import type { Folded } from "../follow/fleet-run.ts";
import { isGone, isServersFault } from "../follow/history-pages.ts";
import { stillOf } from "../view/still.ts";
import type { ReadEarlierRun } from "./earlier-run.ts";
import {
  ARCHIVE_LIMITS,
  createLedgerArchive,
  type ArchiveLimits,
  type Instant,
  type LedgerArchive,
} from "./ledger-archive.ts";

export interface Past {
  readonly begin: (run: KnownRun & { readonly ledger: Folded["ledger"] }) => void;
  readonly add: (folded: Folded) => void;
  /** How far back can be shown at once, and whether there may be more before. */
  readonly reach: () => NonNullable<Facts["past"]> | undefined;
  /** Undefined before all that is known. */
  readonly at: (ms: number, facts: Facts) => Promise<PastAnswer | undefined>;
}

interface KnownRun {
  readonly runId: string;
  readonly startedAtMs: number;
  /** Undefined where there is none, or none any more. */
  readonly previousRunId: string | undefined;
}

interface ReadRun {
  readonly run: KnownRun;
  readonly archive: LedgerArchive;
}

/** One request reads at most so many runs. */
const MOST_RUNS = 5;
const MOST_OPENED = 3;

/** `limits`: of what stays in memory of the runs that are followed. */
export function createPast(
  readEarlier: ReadEarlierRun,
  limits: ArchiveLimits = ARCHIVE_LIMITS,
): Past {
  const recent = createLedgerArchive(limits);
  /** Each continued as the next one, the oldest first. */
  const known: KnownRun[] = [];
  /** Those that were read again, the last one last. */
  const opened = new Map<string, Promise<ReadRun>>();
  /** One at a time, so that many readers take no more memory than one. */
  let reading: Promise<unknown> = Promise.resolve();

  function open(runId: string): Promise<ReadRun> {
    const run = opened.get(runId) ?? inTurn(() => read(runId));
    opened.delete(runId);
    opened.set(runId, run);
    const [oldest = ""] = opened.keys();
    if (opened.size > MOST_OPENED) opened.delete(oldest);
    return run;
  }

  function inTurn(work: () => Promise<ReadRun>): Promise<ReadRun> {
    const turn = reading.then(work);
    reading = turn.catch(() => undefined);
    return turn;
  }

  async function read(runId: string): Promise<ReadRun> {
    const archive = createLedgerArchive();
    let startedAtMs: number | undefined;
    try {
      const previousRunId = await readEarlier(runId, {
        began(ledger, atMs) {
          startedAtMs = atMs;
          archive.begin(ledger, atMs);
        },
        folded: ({ event, ledger }) => archive.add(event, ledger),
      });
      if (startedAtMs === undefined) throw new Error(`run ${runId} has no events`);
      archive.end();
      return { run: { runId, startedAtMs, previousRunId }, archive };
    } catch (error) {
      opened.delete(runId);
      throw error;
    }
  }

  /** Learns of one run more; returns whether there was one. */
  async function reachBack(): Promise<boolean> {
    const [first] = known;
    if (first?.previousRunId === undefined) return false;
    try {
      const { run } = await open(first.previousRunId);
      if (known[0] === first) known.unshift(run);
      return true;
    } catch (error) {
      // A server that does not answer now may do so later.
      const isOver = isGone(error) || !isServersFault(error);
      if (isOver && known[0] === first) known[0] = { ...first, previousRunId: undefined };
      return false;
    }
  }

  /** Of an instant that memory has no more. */
  async function earlier(ms: number): Promise<Instant | undefined> {
    const place = known.filter(({ startedAtMs }) => startedAtMs <= ms).length - 1;
    const run = known[place];
    if (run === undefined) return undefined;
    let { archive } = await open(run.runId);
    if (place === known.length - 1 && (archive.span()?.toMs ?? 0) < ms) {
      // It has gone on since it was read.
      opened.delete(run.runId);
      ({ archive } = await open(run.runId));
    }
    const instant = archive.at(ms);
    const afterMs = known[place + 1]?.startedAtMs;
    return instant && { ...(afterMs !== undefined && { afterMs }), ...instant };
  }

  async function instantAt(ms: number): Promise<Instant | undefined> {
    const firstMs = known[0]?.startedAtMs ?? 0;
    const wantedMs = Math.max(ms, firstMs);
    const recentMs = recent.span()?.fromMs ?? Infinity;
    const instant = wantedMs < recentMs ? await earlier(wantedMs) : recent.at(wantedMs);
    if (instant === undefined || instant.beforeMs !== undefined) return instant;
    // Where nothing is known of the time before, it is before the first event of its run or of what memory has.
    const beforeMs = instant.atMs - 1;
    return beforeMs < firstMs ? instant : { ...instant, beforeMs };
  }

  function reach(): NonNullable<Facts["past"]> | undefined {
    const [first] = known;
    return first && { fromMs: first.startedAtMs, isMore: first.previousRunId !== undefined };
  }

  return {
    begin({ ledger, runId, startedAtMs, previousRunId }) {
      recent.begin(ledger, startedAtMs);
      if (known.at(-1)?.runId !== runId) known.push({ runId, startedAtMs, previousRunId });
    },
    add: ({ event, ledger }) => recent.add(event, ledger),
    reach,
    async at(ms, facts) {
      for (let runs = 0; runs < MOST_RUNS && ms < (reach()?.fromMs ?? 0); runs += 1)
        if (!(await reachBack())) break;
      const instant = await instantAt(ms);
      const past = reach();
      if (instant === undefined || past === undefined) return undefined;
      const { ledger, decisions, ...times } = instant;
      const shownMs = Math.max(ms, times.atMs);
      return {
        ...{ ...times, past },
        message: stillOf({
          ledger,
          decisions,
          facts: { ...facts, atMs: times.atMs },
          nowMs: shownMs,
        }),
      };
    },
  };
}
