/** @file When a worker on demand may end. */

import { expect, it } from "vitest";
import { createIdleClock } from "../../../workers/on-demand/idle-clock.ts";

const NOTHING = { numInFlightWorkflowActivations: 0, numInFlightActivities: 0 };

it.each([
  ["nothing was done for as long as it takes", NOTHING, 10_000, undefined, true],
  ["it is too soon", NOTHING, 9_999, undefined, false],
  ["a payload passed meanwhile", NOTHING, 12_000, 5_000, false],
  [
    "a workflow task is in progress",
    { ...NOTHING, numInFlightWorkflowActivations: 1 },
    99_000,
    undefined,
    false,
  ],
  [
    "an activity is in progress",
    { ...NOTHING, numInFlightActivities: 1 },
    99_000,
    undefined,
    false,
  ],
])("when %s", (_what, inFlight, nowMs, touchedAtMs, wantIdle) => {
  const clock = createIdleClock(10_000, 0);
  if (touchedAtMs !== undefined) clock.touch(touchedAtMs);
  expect(clock.isIdle(inFlight, nowMs)).toBe(wantIdle);
});

it("the time counts from the end of the last work", () => {
  const clock = createIdleClock(1_000, 0);
  expect(clock.isIdle({ ...NOTHING, numInFlightActivities: 2 }, 5_000)).toBe(false);
  expect(clock.isIdle(NOTHING, 5_999)).toBe(false);
  expect(clock.isIdle(NOTHING, 6_000)).toBe(true);
});
