/** @file The followed ledger is the fleet's: every event and every ledger, against the workflow's own replay of the same histories. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { DefaultLogger, Runtime } from "@temporalio/worker";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { recordedRun } from "../../workers/recorded-fleet.ts";
import { foldedOf } from "../support/recorded-fleet.ts";

const FOLDER = path.join(import.meta.dirname, "../histories");
const files = readdirSync(FOLDER).filter((file) => /^fleet\..*\.json$/.test(file));
const { worker } = createConverters();
const codecs = worker.payloadCodecs ?? [];

Runtime.install({ logger: new DefaultLogger("ERROR") });

describe("a followed run", () => {
  it.each(files)("folds what the fleet of %s has folded, at every instant", async (file) => {
    const history = historyFromJSON(JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")));
    const told = await recordedRun(history, { dataConverter: worker, isEncrypted: false });
    const events = history.events ?? [];
    const run = await openFollowedRun("run-1", events[0] ?? {}, codecs);
    // In pieces, as they come when one waits for them.
    const folded = [];
    for (let at = 0; at < events.length;) {
      const end = nextBatchEnd(events, at);
      folded.push(...(await foldedOf(run, events.slice(at, end))));
      at = end;
    }
    expect(folded.map(({ event }) => event)).toEqual(told.events);
    expect(folded.length).toBeGreaterThan(5);
    let ledger = told.ledger;
    for (const { event, ledger: followed } of folded) {
      ledger = apply(ledger, event).ledger;
      expect(packLedger(followed)).toEqual(packLedger(ledger));
    }
    expect(packLedger(run.ledger())).toEqual(packLedger(ledger));
  });

  it("folds a task when it is asked for, so that nobody keeps the ledgers of a whole page", async () => {
    const file = path.join(FOLDER, files[0] ?? "");
    const events = historyFromJSON(JSON.parse(readFileSync(file, "utf8"))).events ?? [];
    const run = await openFollowedRun("run-1", events[0] ?? {}, codecs);
    let tasks = 0;
    for await (const { ledger } of run.read(events)) {
      expect(run.ledger()).toBe(ledger);
      tasks += 1;
    }
    expect(tasks).toBeGreaterThan(3);
  });
});

/** The server hands out a completed task together with its commands and the updates that it accepted. */
function nextBatchEnd(events: readonly { readonly eventId?: unknown }[], at: number): number {
  const isOfTask = (index: number): boolean => {
    const event = events[index];
    return (
      event !== undefined &&
      /"(workflowTaskCompletedEventId|workflowExecutionUpdate(Accepted|Completed)EventAttributes)"/.test(
        JSON.stringify(event),
      )
    );
  };
  let end = at + 1;
  while (end < events.length && isOfTask(end)) end += 1;
  return end;
}
