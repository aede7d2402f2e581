/** @file The notes of how long jobs ran: which ends are noted, how many are kept, and that they travel. */

import { describe, expect, it } from "vitest";
import { ms } from "../../../../domain/values/units.ts";
import { apply, emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import type { InboxEntry } from "../../../../domain/lease/inbox-entry.ts";
import type { Ledger, LedgerEvent } from "../../../../scheduling/ledger/ledger.ts";
import { MAX_RUN_NOTES } from "../../../../scheduling/ledger/rules/run-history.ts";
import {
  ask,
  end,
  fleetShape,
  gangRequest,
  gpus,
  hello,
  type RequestSpec,
} from "../../builders.ts";

const fold = (ledger: Ledger, ...events: readonly LedgerEvent[]): Ledger =>
  events.reduce((now, event) => apply(now, event).ledger, ledger);

const inbox = (nowMs: number, ...entries: readonly InboxEntry[]): LedgerEvent => ({
  kind: "inbox",
  entries,
  nowMs,
});

function grant(spec: RequestSpec, at: string, nowMs: number): LedgerEvent {
  const { jobId, runId, seq, slots } = gangRequest(spec);
  const item = {
    kind: "grant" as const,
    request: { jobId, runId, seq },
    ...(slots !== undefined && { slots: 1 }),
    gpus: gpus([at, 1]),
    reason: "test",
  };
  return {
    kind: "plan",
    plan: { items: [item], pending: [], stats: { method: "decide", candidates: 0 } },
    nowMs,
  };
}

const START = fold(
  emptyLedger(fleetShape([{ hosts: [{}, {}] }])),
  inbox(0, hello(["c0/h0", "c0/h1"])),
);

/** Asked at 100, granted at 1,000, over at 61,000. */
const lifeOf = (spec: RequestSpec, over: readonly LedgerEvent[]): Ledger =>
  fold(
    START,
    inbox(100, ask({ job: "a", submittedAtMs: 100, ...spec })),
    grant({ job: "a", ...spec }, "c0/h0", 1_000),
    ...over,
  );

describe("a run that ends", () => {
  it("is noted with what it asked for, and when it came, started and ended", () => {
    const { runs } = lifeOf({ class: "inference", timeLimitMs: ms(90_000) }, [
      inbox(61_000, end("a")),
    ]);
    expect(runs).toEqual([
      {
        class: "inference",
        tenant: "t",
        gpus: 1,
        submittedAtMs: 100,
        grantedAtMs: 1_000,
        endedAtMs: 61_000,
        timeLimitMs: 90_000,
      },
    ]);
  });

  it.each([
    [
      "whose hosts have not all confirmed",
      {},
      [inbox(61_000, end("a", { unconfirmed: ["c0/h0"] }))],
      1,
    ],
    ["whose job was found closed", {}, [audited(61_000)], 0],
    ["of a job array", { slots: 4 }, [inbox(61_000, end("a"))], 0],
    ["that goes on", {}, [], 0],
  ] as const)("%s", (_, spec, over, want) => {
    expect(lifeOf(spec, over).runs ?? []).toHaveLength(want);
  });

  it("is one of the last that are kept, and survives the ledger's travels", () => {
    let ledger = START;
    for (let at = 1; at <= MAX_RUN_NOTES + 3; at += 1) {
      const job = `j${at}`;
      const nowMs = 10 * at;
      const asked = ask({ job, tenant: at % 2 === 0 ? "even" : "odd", submittedAtMs: nowMs });
      ledger = fold(ledger, inbox(nowMs, asked), grant({ job }, "c0/h0", nowMs + 1));
      ledger = fold(ledger, inbox(nowMs + 2, end(job)));
    }
    expect(ledger.runs).toHaveLength(MAX_RUN_NOTES);
    expect(ledger.runs?.at(-1)?.endedAtMs).toBe(10 * (MAX_RUN_NOTES + 3) + 2);
    const travelled: unknown = JSON.parse(JSON.stringify(packLedger(ledger)));
    expect(unpackLedger(travelled as ReturnType<typeof packLedger>)).toEqual(ledger);
  });
});

function audited(nowMs: number): LedgerEvent {
  const { jobId, runId } = gangRequest({ job: "a" });
  return { kind: "audited", closed: [{ jobId, runId }], nowMs };
}
