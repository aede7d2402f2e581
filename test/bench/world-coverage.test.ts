/** @file Branches that worlds go through, counted as V8 counts them. */

import { expect, test } from "vitest";
import { countOf, sumOf } from "../../bench/world/coverage.ts";

const range = (startOffset: number, count: number) => ({ startOffset, endOffset: 100, count });

test("a function and each block of it count once, and the file itself does not", () => {
  const functions = [
    { functionName: "", ranges: [range(0, 1)], isBlockCoverage: true },
    {
      functionName: "met",
      ranges: [range(0, 3), range(20, 0), range(30, 1)],
      isBlockCoverage: true,
    },
    { functionName: "", ranges: [range(50, 0)], isBlockCoverage: false },
  ];
  expect(countOf(functions)).toEqual({ branches: 4, met: 2 });
  expect(sumOf([countOf(functions), { branches: 1, met: 1 }])).toEqual({ branches: 5, met: 3 });
});
