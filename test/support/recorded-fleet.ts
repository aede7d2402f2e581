/** @file A recorded history of a fleet, folded as a console folds it. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { readFileSync } from "node:fs";
import path from "node:path";
import type { Folded } from "../../console/follow/fleet-run.ts";
import { openFollowedRun, type FollowedRun } from "../../console/follow/followed-run.ts";
import type { HistoryEvent } from "../../console/follow/workflow-task.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { createConverters } from "../../workers/codec/converters.ts";

export const HISTORIES = path.join(import.meta.dirname, "../histories");
const codecs = createConverters().worker.payloadCodecs ?? [];

export const eventsOf = (file: string): readonly HistoryEvent[] =>
  historyFromJSON(JSON.parse(readFileSync(path.join(HISTORIES, file), "utf8"))).events ?? [];

export async function recorded(file: string): Promise<{
  readonly ledger: Ledger;
  readonly startedAtMs: number;
  readonly folded: readonly Folded[];
}> {
  const events = eventsOf(file);
  const run = await openFollowedRun("run-1", events[0] ?? {}, codecs);
  const { startedAtMs } = run;
  const ledger = run.ledger();
  return { ledger, startedAtMs, folded: await foldedOf(run, events) };
}

/** What the run folds of these events, kept whole. */
export async function foldedOf(
  run: FollowedRun,
  events: readonly HistoryEvent[],
): Promise<readonly Folded[]> {
  const all: Folded[] = [];
  for await (const { folded } of run.read(events)) all.push(...folded);
  return all;
}
