/** @file The step of a job as `status` tells it. */

import { expect, test } from "vitest";
import type { JobView } from "../../../client/index.ts";
import { endText, stepOf, stepText } from "../../../cli/text/step-text.ts";

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

const HOUR = 3_600_000;
const ran = (startedAtMs: number, of: object): JobView["attempts"][number] => ({
  ...attempt(1000),
  startedAtMs,
  ...of,
});
const spec = { steps: 10_000 } as unknown as NonNullable<JobView["spec"]>;

test.each([
  { name: "predicted until it is measured", attempts: [ran(0, {})], live: [{}], want: 10_000_000 },
  { name: "as measured", attempts: [ran(0, {})], live: [{ stepMs: 2000 }], want: 20_000_000 },
  {
    name: "less what a former run had time for",
    attempts: [ran(0, { endedAtMs: HOUR, stepMs: 900 }), ran(2 * HOUR, {})],
    live: [{ stepMs: 2000 }],
    want: 2 * HOUR + 6_000 * 2000,
  },
  {
    name: "not before the start of a run that has nothing left",
    attempts: [ran(0, { endedAtMs: 10 * HOUR }), ran(20 * HOUR, {})],
    live: [],
    want: 20 * HOUR,
  },
  {
    name: "later than any date",
    attempts: [ran(0, {})],
    live: [{ stepMs: 1e12 }],
    want: undefined,
  },
  { name: "no run goes on", attempts: [ran(0, { endedAtMs: HOUR })], live: [], want: undefined },
])("the last step ends $name", ({ attempts, live, want }) => {
  expect(stepOf({ attempts, spec }, live)?.endsAtMs).toBe(want);
  expect(stepOf({ attempts }, live)?.endsAtMs).toBeUndefined();
});

test("the end is told with its steps, and not as one of the past", () => {
  const facts = stepOf({ attempts: [ran(0, {})], spec }, [{ stepMs: 360 }]);
  expect(endText(facts, 0)).toMatch(/^about .+ \(in 1h00m\), by 10000 steps as measured$/);
  expect(endText(facts, HOUR)).toBe("about now, by 10000 steps as measured");
  expect(endText(stepOf({ attempts: [ran(0, {})] }, []), 0)).toBeUndefined();
});
