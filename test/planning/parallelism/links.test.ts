/** @file Links: what crosses them together takes its time, in every candidate and beside an independent simulation of the flows. */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { CHECKED_FLEETS } from "../../../bench/plan/checked-fleets.ts";
import { simulateStep } from "../../../bench/plan/flow-simulation.ts";
import { linkFloorMs } from "../../../bench/plan/link-floor.ts";
import { checkLinks } from "../../../bench/plan/links.ts";
import { simulatedPlan } from "../../../bench/plan/simulated-plan.ts";
import { MODEL_PRESETS } from "../../../domain/model/model-presets.ts";
import { randomFrom, shuffled } from "../../../lib/random.ts";
import { rateFiller, type Flow } from "../../../planning/parallelism/fair-rates.ts";
import { DEEPSPEED, FSDP2 } from "../../../planning/parallelism/framework.ts";
import { pipelineMs } from "../../../planning/parallelism/pipeline-time.ts";
import { unitsOf } from "../../../planning/parallelism/site.ts";
import { layerSums, type Split } from "../../../planning/parallelism/split.ts";
import { playedStep, stepTime } from "../../../planning/parallelism/step-time.ts";
import { caseCount } from "../../support/case-count.ts";
import { expectStep, ROUNDING } from "./expect-step.ts";
import { preset } from "./sites.ts";

/** A model for each fleet, another one for each turn. */
const cases = [...CHECKED_FLEETS.keys()].flatMap((fleet, at) =>
  Array.from({ length: caseCount(3) }, (_, turn) => ({
    fleet,
    model: [...MODEL_PRESETS.keys()][(at + 4 * turn) % MODEL_PRESETS.size] ?? "gpt2-1.3b",
  })),
);

test.each(cases)("plans of $model on $fleet overload no link", async ({ fleet, model }) => {
  const check = await checkLinks(model, fleet, 32);
  if (check === undefined) return;
  expect(check.candidates).toBeGreaterThan(2);
  expect(check.overloads).toBe(0);
  expect(check.ratio).toBeGreaterThanOrEqual(1 - ROUNDING);
  expect(check.ratio).toBeLessThanOrEqual(1.1);
});

test("rings that overlap with a tied embedding are in the answer", async () => {
  const check = await checkLinks("bert-110m", "three sites", 256);
  expect(check?.ratio).toBeCloseTo(1, 6);
});

test("eight pipelines over one link between two sites share it", async () => {
  const check = await checkLinks("gpt2-1.3b", "two sites, narrow", 256);
  expect(check).toMatchObject({ overloads: 0 });
  expect(check?.busiest).toBeGreaterThan(0.5);
});

const anySplit = fc.record({
  seed: fc.integer({ min: 1, max: 1e6 }),
  fleet: fc.constantFrom(...CHECKED_FLEETS.keys()),
  model: fc.constantFrom("bert-110m", "gpt2-350m", "gpt2-4.2b"),
  stages: fc.constantFrom(1, 2, 3, 4, 6),
  width: fc.constantFrom(1, 2),
  microBatch: fc.integer({ min: 1, max: 4 }),
  microBatches: fc.integer({ min: 1, max: 40 }),
  isSharded: fc.boolean(),
  isRecomputing: fc.boolean(),
});

test("any split on any order of GPUs: link's bytes ÷ rate ≤ played step and bound, and the played step is the simulated one", () => {
  fc.assert(
    fc.property(anySplit, ({ seed, fleet, model: name, stages, width, ...rest }) => {
      const site = CHECKED_FLEETS.get(fleet);
      if (site === undefined) throw new Error(fleet);
      const random = randomFrom(seed);
      const units = unitsOf(site, width) ?? [];
      const replicas = Math.floor(units.length / stages);
      fc.pre(replicas > 0);
      const model = preset(name);
      const layers = model.layers.length;
      const split: Split = {
        ...{ ...rest, stages, replicas, width },
        cells: shuffled(units, random).slice(0, stages * replicas),
        bounds: Array.from({ length: stages + 1 }, (_, at) => Math.round((at * layers) / stages)),
      };
      expectStep(split, { model, site, within: 1e-6 });
    }),
    { numRuns: caseCount(120) },
  );
});

const anyReplicas = fc.record({
  seed: fc.integer({ min: 1, max: 1e6 }),
  fleet: fc.constantFrom(...CHECKED_FLEETS.keys()),
  model: fc.constantFrom("bert-110m", "gpt2-350m", "gpt2-4.2b"),
  framework: fc.constantFrom("deepspeed" as const, "fsdp2" as const),
  shards: fc.constantFrom(undefined, "gradients" as const, "parameters" as const),
  microBatches: fc.integer({ min: 1, max: 40 }),
  isRecomputing: fc.boolean(),
});

test("replicas that share out gradients or parameters: the same law, with gathers and sums for each micro-batch", () => {
  fc.assert(
    fc.property(anyReplicas, ({ seed, fleet, model: name, framework, shards, ...rest }) => {
      const site = CHECKED_FLEETS.get(fleet);
      if (site === undefined) throw new Error(fleet);
      const model = preset(name);
      const cells = shuffled(unitsOf(site, 1) ?? [], randomFrom(seed));
      const what = framework === "fsdp2" ? "parameters" : shards;
      const split: Split = {
        ...{ ...rest, stages: 1, replicas: cells.length, width: 1, microBatch: 1, isSharded: true },
        ...(what !== undefined && { shards: what }),
        cells,
        bounds: [0, model.layers.length],
      };
      const sums = layerSums(model, framework === "fsdp2" ? FSDP2 : DEEPSPEED);
      const bound = stepTime(split, { site, sums });
      const played = playedStep(split, { site, sums });
      const plan = { model, site, split, gradientBytes: 4, framework };
      const simulatedMs = simulateStep(simulatedPlan(plan)).stepMs + played.parts.updateMs;
      expect(linkFloorMs(plan)).toBeLessThanOrEqual(played.totalMs * (1 + ROUNDING));
      expect(linkFloorMs(plan)).toBeLessThanOrEqual(bound.totalMs * (1 + ROUNDING));
      expect(Math.abs(played.totalMs / simulatedMs - 1)).toBeLessThan(1e-6);
    }),
    { numRuns: caseCount(100) },
  );
});

describe("max–min fair rates", () => {
  const anyFlows = fc.array(
    fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 4 }),
    {
      minLength: 1,
      maxLength: 12,
    },
  );

  test("overload no link, and every flow has a full link on which none is faster", () => {
    fc.assert(
      fc.property(
        anyFlows,
        fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 6, maxLength: 6 }),
        (ways, rates) => {
          const flows = ways.map((links): Flow => ({ links, left: 1, rate: 0 }));
          rateFiller(Float64Array.from(rates))(flows);
          const used = rates.map((_, link) =>
            flows.reduce(
              (sum, { links, rate }) => sum + rate * links.filter((each) => each === link).length,
              0,
            ),
          );
          for (const [link, rate] of rates.entries())
            expect(used[link]).toBeLessThanOrEqual(rate * 1.001);
          for (const { links, rate } of flows)
            expect(
              links.some(
                (link) =>
                  (used[link] ?? 0) >= (rates[link] ?? 0) * 0.999 &&
                  flows.every((other) => !other.links.includes(link) || other.rate <= rate * 1.001),
              ),
            ).toBe(true);
        },
      ),
      { numRuns: caseCount(300) },
    );
  });
});

describe("a pipeline", () => {
  const times = (
    ms: readonly (readonly [forward: number, backward: number])[],
    stages = ms.length,
  ) => ({
    stages,
    forwardMs: Float64Array.from(ms, ([forward]) => forward),
    backwardMs: Float64Array.from(ms, ([, backward]) => backward),
  });

  test("of equal stages takes m + p − 1 turns", () => {
    expect(
      pipelineMs(
        times([
          [1, 2],
          [1, 2],
          [1, 2],
        ]),
        100,
      ),
    ).toBeCloseTo(3 * 102, 9);
    expect(
      pipelineMs(
        times([
          [1, 2],
          [1, 2],
          [1, 2],
        ]),
        2,
      ),
    ).toBeCloseTo(3 * 4, 9);
  });

  test("whose first stage is slow hides the others behind it, but for the first and the last turn", () => {
    // The first stage is never idle between its first and last forward; the last backward waits for one way back.
    expect(
      pipelineMs(
        times([
          [10, 20],
          [1, 2],
        ]),
        20,
      ),
    ).toBeCloseTo(20 * 30, 0);
  });
});
