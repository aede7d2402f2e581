/** @file Sizes of texts and short forms of ids. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { interner } from "../../lib/interner.ts";
import { longId, shortId } from "../../lib/short-uuid.ts";
import { utf8Length } from "../../lib/utf8.ts";

/** Cheaper to set up than fast-check's own, and with lone surrogates. */
const anyCodePoint = fc
  .oneof(fc.integer({ min: 0, max: 0x10_ff_ff }), fc.integer({ min: 0, max: 0x8_00 }))
  .map((code) => String.fromCodePoint(code));

test("the size of any text is the one that the platform gives", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCodePoint }), (text) => {
      expect(utf8Length(text)).toBe(Buffer.byteLength(text));
    }),
  );
});

test("a lone surrogate counts as its replacement character", () => {
  expect(utf8Length("\ud800x\udc00")).toBe(7);
});

test("every id comes back from its short form", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uuid(),
        fc.string(),
        fc.string().map((text) => `~${text}`),
      ),
      (id) => {
        expect(longId(shortId(id))).toBe(id);
      },
    ),
  );
});

test.each([
  { id: "00000000-0000-0000-0000-000000000000", want: `~${"A".repeat(22)}` },
  { id: "ffffffff-ffff-ffff-ffff-ffffffffffff", want: `~${"_".repeat(21)}w` },
  { id: "FFFFFFFF-ffff-ffff-ffff-ffffffffffff", want: "FFFFFFFF-ffff-ffff-ffff-ffffffffffff" },
  { id: "ffffffffaffff-ffff-ffff-ffffffffffff", want: "ffffffffaffff-ffff-ffff-ffffffffffff" },
  { id: "~x", want: "~~x" },
])("the short form of $id is $want", ({ id, want }) => {
  expect(shortId(id)).toBe(want);
});

test("equal values share an index, in the order of first sight", () => {
  const { indexOf, values } = interner<string>((text) => text, ["x"]);
  expect(["y", "x", "y", "z"].map(indexOf)).toEqual([1, 0, 1, 2]);
  expect(values).toEqual(["x", "y", "z"]);
});
