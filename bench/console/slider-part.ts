/**
 * @file Random instants of a fleet's past, as the console shows them and as its archive has them, beside the histories folded anew.
 *
 * What a console shows is compared row by row: the hash of its tables and its queue, beside the hash of those made of the ledger of that instant. What the
 * archive has is compared as a whole ledger. The console is a fresh one, so it reads the runs that are over from Temporal.
 */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { earlierRuns, runsOfTemporal } from "../../console/past/earlier-run.ts";
import { createLedgerArchive, type LedgerArchive } from "../../console/past/ledger-archive.ts";
import { stillOf } from "../../console/view/still.ts";
import type { Message, PastAnswer } from "../../page/wire.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import type { Draw } from "../statistics.ts";
import { hashOf, ledgerHash, type FoldedHistories } from "./folded-histories.ts";

export interface SliderFigures {
  readonly shownEqual: number;
  readonly ledgersEqual: number;
  /** To the whole answer, one instant after the other. */
  readonly answerMs: readonly number[];
  readonly instants: readonly number[];
}

export async function measureSlider({
  url,
  truth,
  draw,
  count,
  ...source
}: {
  readonly url: string;
  readonly truth: FoldedHistories;
  readonly draw: Draw;
  readonly count: number;
  readonly client: Client;
  readonly fleet: string;
  readonly codecs: readonly PayloadCodec[];
}): Promise<SliderFigures> {
  const { fromMs, toMs } = truth;
  const instants = Array.from(
    { length: count },
    () => fromMs + Math.floor(draw.unit() * (toMs - fromMs + 1)),
  );
  const archiveAt = await archiveOf(source);
  const answerMs: number[] = [];
  let shownEqual = 0;
  let ledgersEqual = 0;
  for (const ms of instants) {
    const beganMs = performance.now();
    const { message } = await shownAt(url, ms);
    answerMs.push(performance.now() - beganMs);
    const ledger = truth.ledgerAt(ms);
    const facts = { fleet: source.fleet, atMs: ms };
    if (rowsHash(message) === rowsHash(stillOf({ ledger, decisions: [], facts, nowMs: ms })))
      shownEqual += 1;
    const kept = archiveAt(ms);
    if (kept !== undefined && ledgerHash(kept) === ledgerHash(ledger)) ledgersEqual += 1;
  }
  return { shownEqual, ledgersEqual, answerMs, instants };
}

export async function shownAt(url: string, ms: number): Promise<PastAnswer> {
  const answer = await fetch(`${url}api/past?at=${String(ms)}`);
  if (!answer.ok) throw new Error(`of ${String(ms)} the console says ${await answer.text()}`);
  return (await answer.json()) as PastAnswer;
}

/** Of all that comes from the ledger; decisions come from the events before it. */
export function rowsHash({ order, changes = {} }: Message): string {
  const { hosts, leases, reservations, requests, reasons, flows } = changes;
  return hashOf({ order, hosts, leases, reservations, requests, reasons, flows });
}

/** One archive a run. */
async function archiveOf({
  client,
  fleet,
  codecs,
}: {
  readonly client: Client;
  readonly fleet: string;
  readonly codecs: readonly PayloadCodec[];
}): Promise<(ms: number) => ReturnType<FoldedHistories["ledgerAt"]> | undefined> {
  const { signal } = new AbortController();
  const readEarlier = earlierRuns(runsOfTemporal({ client, fleet, signal }), codecs);
  const archives: LedgerArchive[] = [];
  let runId: string | undefined = (
    await client.workflow.getHandle(fleetWorkflowId(fleet)).describe()
  ).runId;
  while (runId !== undefined) {
    const archive = createLedgerArchive();
    runId = await readEarlier(runId, {
      began: archive.begin,
      folded: ({ event, ledger }) => archive.add(event, ledger),
    });
    archives.push(archive);
  }
  // The newest run first.
  return (ms) =>
    archives.find((archive) => (archive.span()?.fromMs ?? Infinity) <= ms)?.at(ms)?.ledger;
}
