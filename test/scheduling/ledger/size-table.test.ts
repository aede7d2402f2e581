/** @file The bytes of a list of numbers are those of its JSON, which is not written. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { jsonBytes, numbersBytes } from "../../../scheduling/ledger/size-table.ts";

test("any list of numbers is as long as its JSON", () => {
  const number = fc.oneof(
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double(),
    fc.constantFrom(0, -0, 9, 10, 99, 100, 999_999_999_999, 1e12, 1e21, Number.MAX_SAFE_INTEGER),
  );
  fc.assert(
    fc.property(fc.array(number), (numbers) => {
      expect(numbersBytes(numbers)).toBe(jsonBytes(numbers));
    }),
  );
});
