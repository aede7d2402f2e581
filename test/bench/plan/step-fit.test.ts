/** @file Fits of the step-time model to five rows: which rows, how near the others, and what never plays a part. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fitSteps, rowsToMeasure } from "../../../bench/plan/step-fit.ts";
import { logStep, slopesOf, stepScope, type StepPlace } from "../../../bench/plan/step-model.ts";
import { caseCount } from "../../support/case-count.ts";

const PLACEMENTS = [[1], [2], [4], [8], [1, 1], [2, 2], [4, 4], [2, 6], [4, 4, 4], [8, 8], [3, 5]];
const LOADS = [8, 32, 128];

const varied: readonly StepPlace[] = PLACEMENTS.flatMap((hosts) =>
  LOADS.map((load) => ({ hosts, load })),
);
const oneBatch: readonly StepPlace[] = PLACEMENTS.map((hosts) => ({
  hosts,
  load: 1 / hosts.reduce((sum, gpus) => sum + gpus, 0),
}));

describe.each([
  { name: "batch and placement", places: varied },
  { name: "placement at one global batch", places: oneBatch },
])("a profile that varies $name", ({ places }) => {
  const scope = stepScope(places);

  test("whose steps are as the priors say is predicted from five rows within 2 %", () => {
    const truth = scope.terms.map(({ mean }, at) => (at === 0 ? Math.log(0.7) : mean));
    const rows = places.map((place) => ({
      ...place,
      stepS: Math.exp(logStep(truth, place, scope)),
    }));
    const chosen = rowsToMeasure(places, 5, scope);
    const { predict } = fitSteps(
      chosen.flatMap((at) => rows[at] ?? []),
      scope,
    );
    for (const row of rows) expect(predict(row) / row.stepS).toBeCloseTo(1, 1.7);
  });

  test("is predicted better the more of its rows were measured, wherever the truth lies within its priors", () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: -1, max: 1, noNaN: true }), {
          minLength: scope.terms.length,
          maxLength: scope.terms.length,
        }),
        (draws) => {
          const truth = scope.terms.map(
            ({ mean, deviation }, at) => mean + deviation * (draws[at] ?? 0),
          );
          const rows = places.map((place) => ({
            ...place,
            stepS: Math.exp(logStep(truth, place, scope)),
          }));
          const errorWith = (count: number): number => {
            const { predict } = fitSteps(
              rowsToMeasure(places, count, scope).flatMap((at) => rows[at] ?? []),
              scope,
            );
            const off = rows.map((row) => Math.abs(Math.log(predict(row) / row.stepS)));
            return off.reduce((sum, each) => sum + each, 0) / rows.length;
          };
          expect(errorWith(places.length)).toBeLessThan(Math.max(0.03, errorWith(1)));
        },
      ),
      { numRuns: caseCount(8) },
    );
  });

  test("the first row chosen is the one that leaves the predictions least uncertain, of all", () => {
    const means = Float64Array.from(scope.terms, ({ mean }) => mean);
    const slopes = places.map((place) => slopesOf(means, place, scope));
    const variances = scope.terms.map(({ deviation }) => deviation ** 2);
    const weighted = (a: Float64Array, b: Float64Array): number =>
      variances.reduce((sum, variance, at) => sum + variance * (a[at] ?? 0) * (b[at] ?? 0), 0);
    // After one row a prediction's variance falls by its covariance with the row squared, over the row's own.
    const left = slopes.map((row) =>
      slopes.reduce(
        (sum, place) =>
          sum + weighted(place, place) - weighted(place, row) ** 2 / (weighted(row, row) + 0.0025),
        0,
      ),
    );
    const [first = -1] = rowsToMeasure(places, 1, scope);
    expect(left[first]).toBeCloseTo(Math.min(...left), 6);
  });

  test("rows are chosen once each, and never more than there are", () => {
    expect(new Set(rowsToMeasure(places, 5, scope)).size).toBe(5);
    expect(rowsToMeasure(places.slice(0, 3), 5, scope)).toHaveLength(3);
  });
});

test("execution plans that are fitted together keep a factor of their own", () => {
  const places = oneBatch.flatMap((place) => [0, 1].map((plan) => ({ ...place, plan })));
  const scope = stepScope(places);
  const alone = stepScope(oneBatch);
  const truth = alone.terms.map(({ mean }) => mean);
  const rows = places.map((place) => ({
    ...place,
    stepS:
      Math.exp(logStep(truth, { hosts: place.hosts, load: place.load }, alone)) *
      (1 + place.plan / 4),
  }));
  const { predict } = fitSteps(
    rowsToMeasure(places, 8, scope).flatMap((at) => rows[at] ?? []),
    scope,
  );
  for (const row of rows) expect(Math.abs(Math.log(predict(row) / row.stepS))).toBeLessThan(0.1);
});

test.each([
  { name: "more GPUs to wait for", less: { hosts: [1], load: 32 }, more: { hosts: [8], load: 32 } },
  { name: "a larger batch", less: { hosts: [4], load: 8 }, more: { hosts: [4], load: 128 } },
  { name: "a second host", less: { hosts: [4], load: 32 }, more: { hosts: [4, 4], load: 32 } },
])("at the priors' means $name makes no step shorter", ({ less, more }) => {
  const scope = stepScope(varied);
  const means = scope.terms.map(({ mean }) => mean);
  expect(logStep(means, more, scope)).toBeGreaterThan(logStep(means, less, scope));
});
