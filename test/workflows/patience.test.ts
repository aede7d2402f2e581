/** @file When a fleet tells a job that its patience is over: after a cycle that left it waiting, without the time in which nothing could be decided. */
import { expect, test } from "vitest";
import { ms } from "../../domain/units.ts";
import { apply, emptyLedger } from "../../scheduling/apply.ts";
import { packLedger, unpackLedger } from "../../scheduling/ledger-codec.ts";
import type { Ledger } from "../../scheduling/ledger.ts";
import { openPatience } from "../../workflows/patience.ts";
import { ask, end, fleetShape } from "../scheduling/builders.ts";

const EMPTY = emptyLedger(fleetShape([{}]));
const waiting = (...jobs: readonly (readonly [job: string, patience?: number])[]): Ledger =>
  apply(EMPTY, {
    kind: "inbox",
    entries: jobs.map(([job, patience]) =>
      ask({ job, ...(patience !== undefined && { patienceMs: ms(patience) }) }),
    ),
    nowMs: 0,
  }).ledger;
const LEDGER = waiting(["a", 60_000], ["b", 90_000], ["c"]);

test("the request carries its patience through the ledger's codec", () => {
  const packed = JSON.parse(JSON.stringify(packLedger(LEDGER))) as ReturnType<typeof packLedger>;
  expect(unpackLedger(packed)).toEqual(LEDGER);
});

test("nobody is told before a cycle has judged the moment, then each whose time it was", () => {
  const patience = openPatience("eu");
  expect(patience.nextJudgementAtMs(LEDGER)).toBe(60_000);
  expect(patience.take(LEDGER, 9, 70_000)).toEqual([]);
  patience.judged(59_999);
  expect(patience.take(LEDGER, 9, 70_000)).toEqual([]);
  patience.judged(60_000);
  expect(patience.nextJudgementAtMs(LEDGER)).toBe(90_000);
  const notes = patience.take(LEDGER, 9, 60_000);
  expect(notes.map(({ jobId, seq, reason }) => [jobId, seq, reason.code])).toEqual([
    ["a", 1, "PatienceOver"],
  ]);
});

test("what is not followed is said again after a minute, and to a later request afresh", () => {
  const patience = openPatience("eu");
  patience.judged(60_000);
  const said = (ledger: Ledger, nowMs: number): number => patience.take(ledger, 9, nowMs).length;
  expect([said(LEDGER, 60_000), said(LEDGER, 60_001), said(LEDGER, 120_000)]).toEqual([1, 0, 1]);
  const again = apply(LEDGER, {
    kind: "inbox",
    entries: [end("a"), ask({ job: "a", seq: 2, requestedAtMs: 120_000, patienceMs: ms(1_000) })],
    nowMs: 120_000,
  }).ledger;
  patience.judged(121_000);
  expect(said(again, 121_000)).toBe(2);
});

test.each([
  { name: "none", gaps: [], want: 60_000 },
  { name: "before it asked", gaps: [[-50, -10]], want: 60_000 },
  { name: "that began before", gaps: [[-50, 10_000]], want: 70_000 },
  { name: "in between", gaps: [[10_000, 15_000]], want: 65_000 },
  {
    name: "two",
    gaps: [
      [10_000, 15_000],
      [62_000, 64_000],
    ],
    want: 67_000,
  },
  { name: "at its very end", gaps: [[60_000, 600_000]], want: 600_000 },
  { name: "afterwards", gaps: [[61_000, 600_000]], want: 60_000 },
])("time in which nothing could be decided does not count: $name", ({ gaps, want }) => {
  const patience = openPatience("eu");
  for (const [from = 0, to = 0] of gaps) patience.gap(from, to);
  expect(patience.nextJudgementAtMs(waiting(["a", 60_000]))).toBe(want);
});

test("a clock that rings a little late was minded, one that rings much later was not", () => {
  const ends = [1_000, 30_000].map((lateMs) => {
    const patience = openPatience("eu");
    patience.rang(20_000, 20_000 + lateMs);
    return patience.nextJudgementAtMs(waiting(["a", 60_000]));
  });
  expect(ends).toEqual([60_000, 90_000]);
});

test("no more are told at once than there is room for; the others' turn comes", () => {
  const patience = openPatience("eu");
  patience.judged(90_000);
  const turns = [1, 2, 3].map((turn) =>
    patience.take(LEDGER, 1, 90_000 + turn).map(({ jobId }) => jobId),
  );
  expect(turns).toEqual([["a"], ["b"], []]);
});
