/** @file A job's ring of fleets: whom it asks next, for how long, when it leaves and when it stays. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PendingCode } from "../../domain/codes.ts";
import type { PendingReason } from "../../domain/pending.ts";
import { ms } from "../../domain/units.ts";
import { openCells } from "../../workflows/cells.ts";

const rule = (...fleets: readonly string[]) => ({ fleets, patienceMs: ms(60_000) });
const told = (code: PendingCode): PendingReason => ({
  code,
  message: `because of ${code}`,
  numbers: {},
  holders: [],
  wakeOn: ["timer"],
});

test.each([
  { home: "eu", fleets: ["us", "ap"], want: ["eu", "us", "ap"] },
  { home: "us", fleets: ["eu", "us", "ap"], want: ["us", "ap", "eu"] },
  { home: "eu", fleets: ["eu"], want: ["eu"] },
])("submitted to $home with fleets $fleets it asks $want", ({ home, fleets, want }) => {
  const cells = openCells(home, rule(...fleets));
  const asked = want.map((_, step) => {
    if (step > 0) cells.move(undefined, 0);
    return cells.here();
  });
  expect(asked).toEqual(want);
});

test("without other fleets it never leaves and shows no ring", () => {
  for (const cells of [openCells("eu"), openCells("eu", rule("eu"))]) {
    expect(cells.patienceMs()).toBeUndefined();
    expect(cells.isLeft(told("PatienceOver"))).toBe(false);
    expect(cells.view()).toBeUndefined();
  }
});

test("each further round is twice as patient, up to six hours, and never less than it was asked for", () => {
  const patience = (firstMs: number, rounds: number): number | undefined => {
    const cells = openCells("a", { fleets: ["b"], patienceMs: ms(firstMs) });
    for (let move = 0; move < 2 * rounds; move += 1) cells.move(undefined, 0);
    return cells.patienceMs();
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
  expect(cells.isLeft(told(each.code))).toBe(each.wantFirst);
  cells.move(undefined, 0);
  cells.move(undefined, 0);
  expect(cells.isLeft(told(each.code))).toBe(each.wantLater);
});

test("once it has left something behind it stays", () => {
  const cells = openCells("a", rule("b"));
  cells.move(told("PatienceOver"), 7);
  cells.settle();
  expect([cells.here(), cells.patienceMs(), cells.isLeft(told("PatienceOver"))]).toEqual([
    "b",
    undefined,
    false,
  ]);
  expect(cells.view()?.moves).toEqual([
    { from: "a", to: "b", atMs: 7, code: "PatienceOver", reason: "because of PatienceOver" },
  ]);
});

test("in every round each fleet is asked once, and the last ten moves are shown", () => {
  const names = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d"), { minLength: 2 });
  fc.assert(
    fc.property(names, fc.nat(40), (fleets, moves) => {
      const [home = "a"] = fleets;
      const cells = openCells(home, rule(...fleets));
      const asked = [cells.here()];
      for (let move = 0; move < moves; move += 1) asked.push(cells.move(undefined, move).to);
      const size = fleets.length;
      for (let at = 0; at + size <= asked.length; at += size)
        expect(new Set(asked.slice(at, at + size)).size).toBe(size);
      const view = cells.view();
      expect(view?.moves.length).toBe(Math.min(10, moves));
      expect([view?.moved, view?.round]).toEqual([moves, 1 + Math.floor(moves / size)]);
    }),
  );
});
