/** @file When a fleet notifies a job that its patience is over: after a cycle that left it waiting, without the time in which the fleet could not decide. */
import { expect, test } from "vitest";
import { ms } from "../../../domain/values/units.ts";
import {
  afterClock,
  afterCycle,
  afterGap,
  FULL_PATIENCE,
  nextExpiryAtMs,
  takeExpired,
  type Patience,
} from "../../../machines/fleet/patience.ts";
import { apply, emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { ask, end, fleetShape } from "../../scheduling/builders.ts";

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
const take = (patience: Patience, ledger: Ledger, nowMs: number, most = 9) =>
  takeExpired(patience, ledger, { fleet: "eu", most, nowMs });

test("the request carries its patience through the ledger's codec", () => {
  const packed = JSON.parse(JSON.stringify(packLedger(LEDGER))) as ReturnType<typeof packLedger>;
  expect(unpackLedger(packed)).toEqual(LEDGER);
});

test("no job is notified before a cycle has judged the moment, then each whose time it was", () => {
  expect(nextExpiryAtMs(FULL_PATIENCE, LEDGER)).toBe(60_000);
  expect(take(FULL_PATIENCE, LEDGER, 70_000).notes).toEqual([]);
  expect(take(afterCycle(FULL_PATIENCE, 59_999), LEDGER, 70_000).notes).toEqual([]);
  const judged = afterCycle(FULL_PATIENCE, 60_000);
  expect(nextExpiryAtMs(judged, LEDGER)).toBe(90_000);
  const { notes } = take(judged, LEDGER, 60_000);
  expect(notes.map(({ jobId, seq, reason }) => [jobId, seq, reason.code])).toEqual([
    ["a", 1, "PatienceOver"],
  ]);
});

test("an unanswered notice is repeated after a minute, and a later request gets its own", () => {
  const judged = afterCycle(FULL_PATIENCE, 60_000);
  const first = take(judged, LEDGER, 60_000);
  const second = take(first.patience, LEDGER, 60_001);
  const third = take(second.patience, LEDGER, 120_000);
  expect([first, second, third].map(({ notes }) => notes.length)).toEqual([1, 0, 1]);
  const again = apply(LEDGER, {
    kind: "inbox",
    entries: [end("a"), ask({ job: "a", seq: 2, requestedAtMs: 120_000, patienceMs: ms(1_000) })],
    nowMs: 120_000,
  }).ledger;
  expect(take(afterCycle(third.patience, 121_000), again, 121_000).notes).toHaveLength(2);
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
])("time in which the fleet could not decide does not count: $name", ({ gaps, want }) => {
  const patience = gaps.reduce(
    (reached, [fromMs = 0, toMs = 0]) => afterGap(reached, { fromMs, toMs }),
    FULL_PATIENCE,
  );
  expect(nextExpiryAtMs(patience, waiting(["a", 60_000]))).toBe(want);
});

test("a clock that rings a little late was served, one that rings much later was not", () => {
  const ends = [1_000, 30_000].map((lateMs) =>
    nextExpiryAtMs(afterClock(FULL_PATIENCE, 20_000, 20_000 + lateMs), waiting(["a", 60_000])),
  );
  expect(ends).toEqual([60_000, 90_000]);
});

test("one call gives no more notices than there is room for; the others follow", () => {
  const first = take(afterCycle(FULL_PATIENCE, 90_000), LEDGER, 90_001, 1);
  const second = take(first.patience, LEDGER, 90_002, 1);
  const third = take(second.patience, LEDGER, 90_003, 1);
  expect([first, second, third].map(({ notes }) => notes.map(({ jobId }) => jobId))).toEqual([
    ["a"],
    ["b"],
    [],
  ]);
});
