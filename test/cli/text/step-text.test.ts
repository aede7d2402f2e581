/** @file The step of a job as `status` tells it. */

import { expect, test } from "vitest";
import type { JobView } from "../../../client/index.ts";
import { stepOf, stepText } from "../../../cli/text/step-text.ts";

const attempt = (predictedMs: number | undefined, stepMs?: number) =>
  ({
    ...(stepMs !== undefined && { stepMs }),
    launchExtras: [
      {
        ...{ part: "plan", kind: "done", message: "" },
        ...(predictedMs !== undefined && { planned: { stepMs: predictedMs } }),
      },
    ],
  }) as unknown as JobView["attempts"][number];

test.each([
  {
    name: "predicted, not measured yet",
    attempts: [attempt(999)],
    live: [{}],
    want: "999 ms predicted",
  },
  {
    name: "of a run that goes on",
    attempts: [attempt(800, 1), attempt(800)],
    live: [{}, { stepMs: 1000 }],
    want: "800 ms predicted, 1000 ms measured, the prediction is 20 % too short",
  },
  {
    name: "of a run that has ended",
    attempts: [attempt(12.345, 10)],
    live: [],
    want: "12.3 ms predicted, 10.0 ms measured, the prediction is 23 % too long",
  },
  {
    name: "that took what was predicted, to half a percent",
    attempts: [attempt(999.6, 1000)],
    live: [],
    want: "1000 ms predicted, 1000 ms measured, as predicted",
  },
  {
    name: "without a plan",
    attempts: [attempt(undefined)],
    live: [{ stepMs: 4 }],
    want: "4.00 ms measured",
  },
  { name: "of nothing", attempts: [], live: [], want: undefined },
])("$name", ({ attempts, live, want }) => {
  expect(stepText(stepOf({ attempts }, live))).toBe(want);
});

test("the error is that of the prediction, as a part of what was measured", () => {
  expect(stepOf({ attempts: [attempt(900, 1200)] }, [])).toEqual({
    ...{ predictedMs: 900, measuredMs: 1200, error: -0.25 },
  });
});
