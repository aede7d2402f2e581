/** @file Predicted memory against the frameworks' own code: never below it, at most 5 % above. */

import { expect, test } from "vitest";
import { MEMORY_PAIRS } from "./memory-references.ts";

test("there are forty pairs and more, of all three frameworks", () => {
  expect(MEMORY_PAIRS.length).toBeGreaterThanOrEqual(40);
});

test.each(MEMORY_PAIRS)("$name: $ratio", ({ ratio }) => {
  // Sums in another order.
  expect(ratio).toBeGreaterThan(1 - 1e-6);
  expect(ratio).toBeLessThan(1.05);
});
