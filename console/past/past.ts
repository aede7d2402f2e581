/** @file What the console shows of the past: the ledger at an instant as a snapshot for browsers, and how far back it goes. */

import type { Facts, PastAnswer } from "../../page/wire.ts";
import type { Folded } from "../follow/fleet-run.ts";
import { stillOf } from "../view/still.ts";
import type { ReadEarlierRun } from "./earlier-run.ts";
import { createLedgerArchive } from "./ledger-archive.ts";

export interface Past {
  readonly begin: (run: {
    readonly ledger: Folded["ledger"];
    readonly startedAtMs: number;
    readonly previousRunId: string | undefined;
  }) => void;
  readonly add: (folded: Folded) => void;
  /** How far back can be shown at once, and whether there may be more before. */
  readonly reach: () => NonNullable<Facts["past"]> | undefined;
  /** Undefined before all that is known. */
  readonly at: (ms: number, facts: Facts) => Promise<PastAnswer | undefined>;
}

/** One request reads at most so many runs. */
const MOST_RUNS = 5;

export function createPast(readEarlier: ReadEarlierRun): Past {
  const archive = createLedgerArchive();
  let earlierRunId: string | undefined;
  let isBegun = false;
  let reading: Promise<void> | undefined;

  /** One run more, or none where it is gone or has no room. */
  async function readOne(): Promise<void> {
    const runId = earlierRunId;
    if (runId === undefined) return;
    try {
      const older = createLedgerArchive();
      const previousRunId = await readEarlier(runId, {
        began: older.begin,
        folded: ({ event, ledger }) => older.add(event, ledger),
      });
      earlierRunId = archive.prepend(older) ? previousRunId : undefined;
    } catch {
      earlierRunId = undefined;
    }
  }

  async function at(ms: number, facts: Facts): Promise<PastAnswer | undefined> {
    for (let runs = 0; runs < MOST_RUNS && earlierRunId !== undefined; runs += 1) {
      if (ms >= (archive.span()?.fromMs ?? 0)) break;
      reading ??= readOne().finally(() => (reading = undefined));
      await reading;
    }
    const fromMs = archive.span()?.fromMs;
    const instant = archive.at(Math.max(ms, fromMs ?? 0));
    if (instant === undefined) return undefined;
    const { ledger, plans, ...times } = instant;
    const shownMs = Math.max(ms, times.atMs);
    return {
      ...times,
      past: { fromMs: fromMs ?? 0, isMore: earlierRunId !== undefined },
      message: stillOf({ ledger, plans, facts: { ...facts, atMs: times.atMs }, nowMs: shownMs }),
    };
  }

  return {
    begin({ ledger, startedAtMs, previousRunId }) {
      if (!isBegun) earlierRunId = previousRunId;
      isBegun = true;
      archive.begin(ledger, startedAtMs);
    },
    add: ({ event, ledger }) => archive.add(event, ledger),
    reach() {
      const fromMs = archive.span()?.fromMs;
      return fromMs === undefined ? undefined : { fromMs, isMore: earlierRunId !== undefined };
    },
    at,
  };
}
