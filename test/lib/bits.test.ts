/** @file Bit masks. */
import { expect, test } from "vitest";
import { fullMask, lowestBits } from "../../lib/bits.ts";

test.each([
  { mask: 0b1011, count: 2, want: 0b0011 },
  { mask: 0b1010, count: 1, want: 0b0010 },
  { mask: 0b1010, count: 5, want: 0b1010 },
  { mask: 0b1010, count: 0, want: 0 },
  { mask: 2 ** 30 - 1, count: 30, want: 2 ** 30 - 1 },
])("the $count lowest bits of $mask are $want", ({ mask, count, want }) => {
  expect(lowestBits(mask, count)).toBe(want);
});

test.each([
  { count: 0, want: 0 },
  { count: 1, want: 1 },
  { count: 8, want: 255 },
  { count: 30, want: 1_073_741_823 },
])("$count members make the mask $want", ({ count, want }) => {
  expect(fullMask(count)).toBe(want);
});
