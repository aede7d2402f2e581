/** @file Dead letters: one for each sender and code, at most fifty, none lost from the count, and no code pushed out by another. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { DeadLetter } from "../../../../scheduling/ledger/ledger.ts";
import { withLetter } from "../../../../scheduling/ledger/rules/dead-letters.ts";
import { caseCount } from "../../../support/case-count.ts";

const letter = (more: Partial<DeadLetter> = {}): DeadLetter => ({
  atMs: 1,
  code: "EntryMalformed",
  message: "wrong",
  entry: "{}",
  ...more,
});
const filed = (letters: readonly DeadLetter[]): readonly DeadLetter[] =>
  letters.reduce<readonly DeadLetter[]>(withLetter, []);
const total = (letters: readonly DeadLetter[]): number =>
  letters.reduce((sum, { times = 1 }) => sum + times, 0);

test("letters of one sender are one, the newest, with their number", () => {
  const [only, ...more] = filed([
    letter({ sender: "a", entry: "1" }),
    letter({ sender: "a", entry: "2", message: "wrong otherwise" }),
  ]);
  expect(only).toEqual(letter({ sender: "a", entry: "2", message: "wrong otherwise", times: 2 }));
  expect(more).toEqual([]);
});

test("letters without a sender are one when they say the same", () => {
  expect(filed([letter(), letter({ message: "other" }), letter()])).toMatchObject([
    { message: "other" },
    { message: "wrong", times: 2 },
  ]);
});

test("a flood of one code leaves the letters of the others", () => {
  const unknown = letter({ code: "HostUnknown", message: "no such host" });
  const flood = Array.from({ length: 1_000 }, (_, at) => letter({ sender: `s${at}`, atMs: at }));
  const kept = filed([unknown, ...flood]);
  expect(kept).toHaveLength(50);
  expect(kept).toContainEqual(unknown);
  expect(kept.at(-1)).toEqual(flood.at(-1));
  expect(kept.find(({ sender }) => sender === "others")).toMatchObject({ times: 1_000 - 48 });
});

test("at most fifty stay, and each is counted, whatever comes", () => {
  const letters = fc.record({
    code: fc.constantFrom("EntryMalformed", "EntryTooLarge", "HostUnknown"),
    message: fc.constantFrom("a", "b"),
    sender: fc.option(fc.nat({ max: 80 }).map(String), { nil: undefined }),
    times: fc.option(fc.integer({ min: 2, max: 9 }), { nil: undefined }),
  });
  fc.assert(
    fc.property(fc.array(letters, { maxLength: 200 }), (pieces) => {
      const all = pieces.map(({ sender, times, ...piece }) =>
        letter({
          ...piece,
          ...(sender !== undefined && { sender }),
          ...(times !== undefined && { times }),
        } as Partial<DeadLetter>),
      );
      const kept = filed(all);
      expect(kept.length).toBeLessThanOrEqual(50);
      expect(total(kept)).toBe(total(all));
      expect(new Set(kept.map(({ code }) => code))).toEqual(new Set(all.map(({ code }) => code)));
    }),
    { numRuns: caseCount(100) },
  );
});
