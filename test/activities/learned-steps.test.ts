/** @file Measured steps reach the prices of places: asked for after decisions that price some, seldom, and never to anybody's harm. */

import { expect, test, vi } from "vitest";
import { stepsLearner, type StepsOf } from "../../activities/learned-steps.ts";
import type { KeptStep } from "../../domain/model/step-record.ts";

const STEP: KeptStep = {
  ...{ model: "m", gpuType: "H100", plan: "DP 8", run: "r", tenant: "a", predictedMs: 1 },
  ...{ computeMs: 1, communicationMs: 0, otherMs: 0, measuredMs: 2, atMs: 1 },
};

function learner(stepsOf: StepsOf, clusters: readonly string[]) {
  const clock = { nowMs: 1_000 };
  const known: (readonly KeptStep[])[] = [];
  const asked: string[] = [];
  const learn = stepsLearner({
    stepsOf: (of, signal) => {
      asked.push(`${of.fleet} ${of.cluster}`);
      return stepsOf(of, signal);
    },
    decider: { priced: () => clusters, know: (_fleet, steps) => known.push(steps) },
    nowMs: () => clock.nowMs,
  });
  return { learn, clock, known, asked };
}

test("a fleet that prices places asks all its clusters, and again after a minute", async () => {
  const { learn, clock, known, asked } = learner(() => Promise.resolve([STEP]), ["c0", "c1"]);
  learn("f");
  learn("f");
  await vi.waitFor(() => expect(known).toEqual([[STEP, STEP]]), { timeout: 60_000 });
  expect(asked).toEqual(["f c0", "f c1"]);
  clock.nowMs += 60_000;
  learn("f");
  expect(asked).toHaveLength(4);
});

test("nobody is asked where no place was priced", () => {
  const { learn, asked } = learner(() => Promise.resolve([STEP]), []);
  learn("f");
  expect(asked).toEqual([]);
});

test("a cluster without a model takes nothing from the others", async () => {
  const { learn, known } = learner(
    ({ cluster }) =>
      cluster === "c0" ? Promise.reject(new Error("none")) : Promise.resolve([STEP]),
    ["c0", "c1"],
  );
  learn("f");
  await vi.waitFor(() => expect(known).toEqual([[STEP]]), { timeout: 60_000 });
});
