/** @file Numbers of a fixed width: they come back, and what a width cannot hold is said. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { fixedNumber, fixedText } from "../../lib/packed-number.ts";

test("every whole number that the width can hold comes back", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 64 ** 7 - 1 }), (value) => {
      const text = fixedText(value, 7);
      expect(text).toHaveLength(7);
      expect(fixedNumber(text ?? "")).toBe(value);
    }),
  );
});

test.each([-1, -0, 0.5, Number.NaN, Infinity, 64 ** 2])(
  "%s does not fit into two digits",
  (value) => {
    expect(fixedText(value, 2)).toBeUndefined();
  },
);
