/** @file Sizes without writing JSON again: of lists of numbers, of values with long keys. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  jsonBytes,
  keptKeys,
  numbersBytes,
  sizeTable,
} from "../../../scheduling/ledger/size-table.ts";

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

test("a long key is written once for a value, and equal values count once", () => {
  let written = 0;
  const keyOf = keptKeys<readonly string[]>((list) => {
    written += 1;
    return JSON.stringify(list);
  });
  const long = Array.from({ length: 100 }, (_, at) => `cluster-${String(at)}-é`);
  const [first, equal] = [long, [...long]];
  const counts = [1, 2].map(() => {
    const table = sizeTable({ keyOf, rowOf: (list) => list, signOf: () => 1, isKeyWritten: true });
    for (const list of [first, first, equal]) table.indexOf(list);
    return table.bytes();
  });
  expect(written).toBe(2);
  expect(counts).toEqual([jsonBytes(long) + 1, jsonBytes(long) + 1]);
});
