/**
 * @file The part of a console that grows with its fleet, in a process of its own: it follows a run from the archive, as far as half of it, and shows instants
 * of the runs before. Started by `memory-part.ts`.
 *
 * All of the console's code is loaded, and the client's, so the process takes what a console takes; the server alone is missing.
 */

import "../../client/index.ts";
import "../../console/console.ts";
import { readFileSync } from "node:fs";
import { growHeapSlowly } from "../../console/heap-growth.ts";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { createFleetMetrics } from "../../console/metrics/fleet-metrics.ts";
import { earlierRuns } from "../../console/past/earlier-run.ts";
import { createPast } from "../../console/past/past.ts";
import { createRunArchive, type RunPages } from "../../console/past/run-archive.ts";
import { createTables } from "../../console/view/tables.ts";
import { createConverters } from "../../workers/codec/converters.ts";

/** Given as JSON in the first argument. */
export interface ReadingOrder {
  readonly folder: string;
  /** The run that is followed. */
  readonly runId: string;
  /** Instants, in milliseconds since 1970. */
  readonly instants: readonly number[];
}

/** In MB, as the kernel counts it. */
export interface ReadingFigures {
  readonly loaded: number;
  /** The most until the run has been followed. */
  readonly following: number;
  /** The most until the last instant has been shown. */
  readonly reading: number;
  readonly shown: number;
}

const FACTS = { fleet: "large", atMs: 0 };

async function readPast({ folder, runId, instants }: ReadingOrder): Promise<ReadingFigures> {
  growHeapSlowly();
  const loaded = peakMb();
  const codecs = createConverters().worker.payloadCodecs ?? [];
  const { pages } = createRunArchive({ folder, mostBytes: Infinity, fromTemporal: nowhere });
  const past = createPast(earlierRuns(pages, codecs));
  const [tables, metrics] = [createTables(), createFleetMetrics()];
  for await (const all of pages(runId)) {
    const events = all.slice(0, Math.ceil(all.length / 2));
    const run = await openFollowedRun(runId, events[0] ?? {}, codecs);
    past.begin({ ...run, ledger: run.ledger() });
    for await (const { folded, ledger, task } of run.read(events)) {
      for (const one of folded) {
        metrics.fold(one);
        tables.noteGrants(one.ledger);
        past.add(one);
      }
      tables.look(ledger, FACTS, task.startedAtMs);
    }
  }
  const following = peakMb();
  let shown = 0;
  for (const ms of instants) if ((await past.at(ms, FACTS)) !== undefined) shown += 1;
  return { loaded, following, reading: peakMb(), shown };
}

const nowhere: RunPages = (runId) => {
  throw new Error(`run ${runId} is not in the archive`);
};

/** The most resident memory of this process until now. */
const peakMb = (): number =>
  Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync("/proc/self/status", "utf8"))?.[1]) / 1_024;

const [order = "{}"] = process.argv.slice(2);
// Its parent wrote it.
process.send?.(await readPast(JSON.parse(order) as ReadingOrder));
process.disconnect?.();
