/** @file Learning from steps in worlds that hide the speeds of their GPUs and links: predictions get better, and plans no worse. */

import { expect, it } from "vitest";
import { learnedIn } from "../../../bench/plan/learning.ts";
import { mean } from "../../../bench/statistics.ts";

it("halves the error of the predicted step after ten runs, and takes no plan whose true step is longer", async () => {
  const jobs = [];
  for (const seed of [31, 32, 33, 34, 35, 36, 37, 38]) jobs.push(...(await learnedIn(seed, 3)));
  expect(jobs.length).toBeGreaterThan(16);
  const before = mean(jobs.map(({ errorBefore }) => errorBefore));
  expect(before).toBeGreaterThan(0.05);
  expect(mean(jobs.map(({ error }) => error))).toBeLessThan(before / 2);
  expect(mean(jobs.map(({ ratio }) => ratio))).toBeLessThanOrEqual(1);
  expect(Math.max(...jobs.map(({ ratio }) => ratio))).toBeLessThanOrEqual(1.12);
});
