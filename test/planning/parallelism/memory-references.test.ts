/** @file Predicted memory against the frameworks' own code: never below it, at most 5 % above; a stage's tensors 8 %. */

import { expect, test } from "vitest";
import { MEMORY_PAIRS, STAGE_PAIRS } from "./memory-references.ts";

test("there are forty pairs and more, of all three frameworks", () => {
  expect(MEMORY_PAIRS.length).toBeGreaterThanOrEqual(40);
});

test.each(MEMORY_PAIRS)("$name: $ratio", ({ ratio }) => {
  // Sums in another order.
  expect(ratio).toBeGreaterThan(1 - 1e-6);
  expect(ratio).toBeLessThan(1.05);
});

test.each(STAGE_PAIRS)("$name: kept $kept, at most $peak", ({ kept, peak }) => {
  // As in the published formulas, statistics of norms and attention are left out.
  expect(kept).toBeGreaterThan(1 - 2e-3);
  // 34 bytes an element at least in a gated block, as those formulas have it.
  expect(kept).toBeLessThan(1.09);
  expect(peak).toBeGreaterThan(1 - 2e-3);
  expect(peak).toBeLessThan(1.08);
});
