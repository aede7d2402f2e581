/** @file A decision that was taken is told from what was recorded: the line then, who was passed, and why. */

import { describe, expect, it } from "vitest";
import { decisionText } from "../../../cli/command/decision.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { apply, emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { decisionOn } from "../../../scheduling/explain/past-decision.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import type { Ledger, LedgerEvent } from "../../../scheduling/ledger/ledger.ts";
import { ask, end, fleetShape, hello } from "../builders.ts";

/** As the fleet does: what came, then a plan. */
function recorded(first: Ledger, cycles: readonly (readonly InboxEntry[])[]): LedgerEvent[] {
  const events: LedgerEvent[] = [];
  let ledger = first;
  const fold = (event: LedgerEvent): void => {
    events.push(event);
    ledger = apply(ledger, event).ledger;
  };
  for (const [at, entries] of cycles.entries()) {
    const nowMs = 1_000 * at;
    fold({ kind: "inbox", entries, nowMs });
    fold({ kind: "plan", plan: decide(ledger, nowMs), nowMs });
  }
  return events;
}

const ledger = emptyLedger(fleetShape([{}]));
const inference = { class: "inference" } as const;
const events = recorded(ledger, [
  [hello(["c0/h0"])],
  [ask({ job: "first", gpus: 8, ...inference })],
  [ask({ job: "large", gpus: 9, submittedAtMs: 1, requestedAtMs: 1 })],
  [ask({ job: "small", gpus: 4, submittedAtMs: 2, requestedAtMs: 2 })],
  [end("first")],
]);

describe("a decision", () => {
  it("is told with the place in line and with who was passed for which reason", () => {
    const decision = decisionOn(jobId("small"), { ledger, events });
    expect(decision).toMatchObject({
      nowMs: 4_000,
      waiting: 2,
      item: { gpus: [{ host: "c0/h0" }] },
    });
    const large = decision?.others.find(({ request }) => request.jobId === "large");
    expect(large).toMatchObject({ isGranted: false, reason: { code: "NoMatchingFlavor" } });
    const text = decision === undefined ? "" : decisionText(decision, "large");
    expect(text).toMatch(/^small was granted at 1970-01-01 00:00:04 UTC: 4 of 4 GPUs in c0/);
    expect(text).toMatch(/than +large \(training, t, 9 GPUs\).* queue: NoMatchingFlavor/);
  });

  it("of a job that was never granted is not there", () => {
    expect(decisionOn(jobId("large"), { ledger, events })).toBeUndefined();
  });
});
