/** @file A job's ring of fleets: which fleet it asks next, for how long, when it leaves and when it stays. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PendingCode } from "../../../domain/values/codes.ts";
import type { PendingReason } from "../../../domain/lease/pending.ts";
import { ms } from "../../../domain/values/units.ts";
import {
  cellsView,
  moveToNext,
  openCells,
  patienceMs,
  presentFleet,
  settleCells,
  shouldLeave,
  type Cells,
} from "../../../machines/job/cells.ts";

const rule = (...fleets: readonly string[]) => ({ fleets, patienceMs: ms(60_000) });
const notified = (code: PendingCode): PendingReason => ({
  code,
  message: `because of ${code}`,
  numbers: {},
  holders: [],
  wakeOn: ["timer"],
});

/** The ring after so many moves without a reason. */
const after = (cells: Cells, moves: number): Cells =>
  Array.from({ length: moves }).reduce<Cells>(
    (before) => moveToNext(before, undefined, 0).cells,
    cells,
  );

test.each([
  { home: "eu", fleets: ["us", "ap"], want: ["eu", "us", "ap"] },
  { home: "us", fleets: ["eu", "us", "ap"], want: ["us", "ap", "eu"] },
  { home: "eu", fleets: ["eu"], want: ["eu"] },
])("submitted to $home with fleets $fleets it asks $want", ({ home, fleets, want }) => {
  const cells = openCells(home, rule(...fleets));
  const asked = want.map((_, step) => presentFleet(after(cells, step)));
  expect(asked).toEqual(want);
});

test("without other fleets it never leaves and shows no ring", () => {
  for (const cells of [openCells("eu"), openCells("eu", rule("eu"))]) {
    expect(patienceMs(cells)).toBeUndefined();
    expect(shouldLeave(cells, notified("PatienceOver"))).toBe(false);
    expect(cellsView(cells)).toBeUndefined();
  }
});

test("each further round is twice as patient, up to six hours, and never less than it was asked for", () => {
  const patience = (firstMs: number, rounds: number): number | undefined => {
    const cells = openCells("a", { fleets: ["b"], patienceMs: ms(firstMs) });
    return patienceMs(after(cells, 2 * rounds));
  };
  expect([0, 1, 2, 40].map((rounds) => patience(60_000, rounds))).toEqual([
    60_000, 120_000, 240_000, 21_600_000,
  ]);
  expect(patience(86_400_000, 3)).toBe(86_400_000);
});

test.each<{ code: PendingCode; wantFirst: boolean; wantLater: boolean }>([
  { code: "PatienceOver", wantFirst: true, wantLater: true },
  { code: "NoMatchingFlavor", wantFirst: true, wantLater: false },
  { code: "ExceedsMaxQuota", wantFirst: true, wantLater: false },
  { code: "NoFleet", wantFirst: true, wantLater: false },
  { code: "WaitingForGpus", wantFirst: false, wantLater: false },
])("told $code it leaves: $wantFirst, and in the second round: $wantLater", (each) => {
  const cells = openCells("a", rule("b"));
  expect(shouldLeave(cells, notified(each.code))).toBe(each.wantFirst);
  expect(shouldLeave(after(cells, 2), notified(each.code))).toBe(each.wantLater);
});

test("once it has left something behind it stays", () => {
  const moved = moveToNext(openCells("a", rule("b")), notified("PatienceOver"), 7).cells;
  const cells = settleCells(moved);
  const isLeft = shouldLeave(cells, notified("PatienceOver"));
  expect([presentFleet(cells), patienceMs(cells), isLeft]).toEqual(["b", undefined, false]);
  expect(cellsView(cells)?.moves).toEqual([
    { from: "a", to: "b", atMs: 7, code: "PatienceOver", reason: "because of PatienceOver" },
  ]);
});

test("in every round each fleet is asked once, and the last ten moves are shown", () => {
  const names = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { minLength: 2 });
  fc.assert(
    fc.property(names, fc.nat(40), (fleets, moves) => {
      const [home = "a"] = fleets;
      const opened = openCells(home, rule(...fleets));
      const asked = Array.from({ length: moves + 1 }, (_, step) =>
        presentFleet(after(opened, step)),
      );
      const size = fleets.length;
      for (let at = 0; at + size <= asked.length; at += size)
        expect(new Set(asked.slice(at, at + size)).size).toBe(size);
      const view = cellsView(after(opened, moves));
      expect(view?.moves.length).toBe(Math.min(10, moves));
      expect([view?.moved, view?.round]).toEqual([moves, 1 + Math.floor(moves / size)]);
    }),
  );
});
