/** @file Set bits of masks: as many as there are, of every 32-bit mask. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { gpuCountOf, popCount } from "../../../domain/lease/lease.ts";
import { gpus } from "../../scheduling/builders.ts";

const bitsOf = (mask: number): number => (mask >>> 0).toString(2).replaceAll("0", "").length;

test("the set bits of a mask are counted, of negative ones too", () => {
  fc.assert(
    fc.property(fc.oneof(fc.nat(0xff), fc.integer(), fc.maxSafeInteger()), (mask) => {
      expect(popCount(mask)).toBe(bitsOf(mask));
    }),
  );
  for (const mask of [0, 0xff, -1, 2 ** 31, 2 ** 32 - 1]) expect(popCount(mask)).toBe(bitsOf(mask));
  expect(gpuCountOf(gpus(["c0/h0", 0b101], ["c0/h1", 0xff]))).toBe(10);
  expect(gpuCountOf([])).toBe(0);
});
