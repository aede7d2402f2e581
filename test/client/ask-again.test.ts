/** @file A client asks again soon at first, and seldom later. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { pauseMs } from "../../client/ask-again.ts";

/** When each question is asked, until one comes at or after `untilMs`; the questions themselves take no time. */
function questionsUntil(untilMs: number): readonly number[] {
  const asked = [0];
  for (let atMs = 0, tries = 0; atMs < untilMs; tries += 1) {
    atMs += pauseMs(tries);
    asked.push(atMs);
  }
  return asked;
}

it("sees an answer at most as long again after it came, and never later than half a second", () => {
  fc.assert(
    fc.property(fc.double({ min: 0, max: 60_000, noNaN: true }), (cameMs) => {
      const seenMs = questionsUntil(cameMs).at(-1) ?? NaN;
      expect(seenMs - cameMs).toBeLessThanOrEqual(Math.min(500, cameMs + 20));
    }),
  );
});

it("asks few questions for an answer that never comes", () => {
  expect(questionsUntil(1_000).length).toBeLessThanOrEqual(8);
  expect(questionsUntil(60_000).length).toBeLessThanOrEqual(130);
});

it("waits no longer than its caller says, however often it has asked", () => {
  expect(pauseMs(1_000_000, 200)).toBe(200);
});
