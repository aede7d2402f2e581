/** @file Plans of a few GPUs: found among all plain splits, whatever the work; nothing that is not played is lost or taken for shorter than it is. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import {
  byTime,
  degreesOf,
  plainCandidates,
  type Search,
} from "../../../planning/parallelism/candidates.ts";
import { playedFurther } from "../../../planning/parallelism/further-splits.ts";
import { MEGATRON_CORE } from "../../../planning/parallelism/framework.ts";
import type { PlanModel } from "../../../planning/parallelism/models.ts";
import { planTraining } from "../../../planning/parallelism/plan.ts";
import { playersByFloors } from "../../../planning/parallelism/player.ts";
import type { PlanSite, Unit } from "../../../planning/parallelism/site.ts";
import { unitsOf } from "../../../planning/parallelism/site.ts";
import { layerSums, type Split } from "../../../planning/parallelism/split.ts";
import { playedStep, playedWithin } from "../../../planning/parallelism/step-time.ts";
import { caseCount } from "../../support/case-count.ts";
import { allBounds, host, preset, siteOf } from "./sites.ts";

const SLOW: PlanSite = {
  ...siteOf(host("a/h0", 2), host("b/h0", 2, { cluster: "b" })),
  between: () => ({ gbs: 0.3, latencyMs: 1 }),
};

test("a tied embedding is summed inside a host", async () => {
  const answer = await planTraining({
    ...{ model: preset("gpt2-1.3b"), site: SLOW, batch: 32, random: randomFrom(1, "plan") },
    fixed: { width: 1, stages: 4 },
  });
  if (answer.kind !== "planned") throw new Error(answer.message);
  const { cells } = answer.plan.split;
  expect(cells[0]?.host).toBe(cells.at(-1)?.host);
});

/** Hosts that are all unlike, so that played steps may never repeat. */
const unlike = (count: number, gpus: number): PlanSite =>
  siteOf(
    ...Array.from({ length: count }, (_, at) =>
      host(`c${String(at % 2)}/h${String(at)}`, gpus, {
        ...{ gpuType: `G${String(at % 4)}`, teraflops: 100 + 37 * (at % 4) },
        cluster: `c${String(at % 2)}`,
      }),
    ),
  );

test("a plan comes for a batch of a billion, whose step could not be played to its end", async () => {
  const answer = await planTraining({
    ...{ model: preset("gpt2-350m"), site: unlike(4, 1), batch: 10 ** 9 },
    ...{ random: randomFrom(1, "plan"), mostMicroBatch: 1 },
  });
  expect(answer.kind).toBe("planned");
});

const drawn = fc.record({
  teraflops: fc.array(fc.integer({ min: 50, max: 400 }), { minLength: 2, maxLength: 3 }),
  outputMiB: fc.integer({ min: 1, max: 400 }),
  layers: fc.integer({ min: 4, max: 6 }),
  batch: fc.integer({ min: 1, max: 12 }),
  betweenGbs: fc.constantFrom(0.1, 1, 10),
  isApart: fc.boolean(),
});

function drawnCase({ teraflops, outputMiB, layers, batch, betweenGbs, isApart }: DrawnSite) {
  const site: PlanSite = {
    ...siteOf(
      ...teraflops.map((own, at) =>
        host(`c${String(at)}/h`, 1, {
          ...{ gpuType: `G${String(own)}`, teraflops: own },
          cluster: `c${String(isApart ? at : Math.min(at, 1))}`,
        }),
      ),
    ),
    between: () => ({ gbs: betweenGbs, latencyMs: 1 }),
  };
  const model: PlanModel = {
    ...{ name: "drawn", sample: "sample", splitOf: 1 },
    layers: Array.from({ length: layers }, (_, at) => ({
      ...{ name: `l${String(at)}`, parameters: 1e8, forwardFlops: 5e12 * (1 + (at % 3)) },
      ...{ outputBytes: 2 ** 20 * outputMiB, activationBytes: 2 ** 28, tensorSyncs: 0 },
    })),
  };
  return { site, model, batch };
}
type DrawnSite = typeof drawn extends fc.Arbitrary<infer Of> ? Of : never;

/** Of one replica: units in every order, all layers of stages, every micro-batch. */
function leastOfAll({ site, model, batch }: ReturnType<typeof drawnCase>): number {
  const sums = layerSums(model, MEGATRON_CORE);
  const units = unitsOf(site, 1) ?? [];
  let least = Infinity;
  for (const cells of orders(units))
    for (const bounds of allBounds(model.layers.length, units.length))
      for (let microBatch = 1; microBatch <= batch; microBatch += 1) {
        if (batch % microBatch !== 0) continue;
        const split: Split = {
          ...{ width: 1, stages: units.length, replicas: 1, microBatch, cells, bounds },
          ...{ microBatches: batch / microBatch, isRecomputing: false, isSharded: false },
        };
        least = Math.min(least, playedStep(split, { site, sums }).totalMs);
      }
  return least;
}

const orders = (units: readonly Unit[]): readonly (readonly Unit[])[] =>
  units.length === 0
    ? [[]]
    : units.flatMap((unit) =>
        orders(units.filter((other) => other !== unit)).map((rest) => [unit, ...rest]),
      );

/** Of 200 drawn so 12 are over a hundredth longer, 7 over three, the worst 9.6 hundredths. */
test("on a few unlike GPUs a pipeline is within a tenth of the best of all orders, layers and micro-batches, nine of ten within three hundredths", async () => {
  const ratios: number[] = [];
  await fc.assert(
    fc.asyncProperty(drawn, async (of) => {
      const { site, model, batch } = drawnCase(of);
      const answer = await planTraining({
        ...{ site, model, batch, random: randomFrom(1, "plan") },
        fixed: { stages: site.hosts.length, replicas: 1, width: 1 },
      });
      if (answer.kind !== "planned") throw new Error(answer.message);
      const ratio = answer.plan.stepMs / leastOfAll({ site, model, batch });
      expect(ratio).toBeLessThanOrEqual(1.1);
      ratios.push(ratio);
    }),
    { numRuns: caseCount(30), seed: 21, endOnFailure: true },
  );
  const near = ratios.filter((ratio) => ratio <= 1.03);
  expect(near.length).toBeGreaterThanOrEqual(0.9 * ratios.length);
});

const searchOf = ({ site, model, batch }: ReturnType<typeof drawnCase>): Search => ({
  ...{ request: { site, model, batch }, sums: layerSums(model, MEGATRON_CORE), tried: 0 },
});

test("whatever the work, no candidate is lost, and none is said to be shorter than it is", () => {
  fc.assert(
    fc.property(drawn, fc.constantFrom(0, 2_000, 20_000, Infinity), (of, work) => {
      const search = searchOf(drawnCase(of));
      const { request, sums } = search;
      const known = degreesOf(request, sums).flatMap(({ units, degrees }) =>
        degrees.flatMap((each) => plainCandidates(search, each, units)),
      );
      const all = playersByFloors(search);
      const found = playedFurther(known, search, () => all(work));
      expect(found).toEqual([...found].sort(byTime));
      for (const { split } of known) expect(found.map((each) => each.split)).toContain(split);
      for (const { split, time, isPlayed } of found) {
        const playedMs = playedStep(split, { site: request.site, sums }).totalMs;
        if (isPlayed === true) expect(time.totalMs).toBeCloseTo(playedMs, 6);
        else expect(time.totalMs).toBeGreaterThanOrEqual(playedMs * (1 - 1e-9));
      }
    }),
    { numRuns: caseCount(40) },
  );
});

test("a step is played no further than so many moments, and the same where these are enough", () => {
  fc.assert(
    fc.property(drawn, fc.integer({ min: 1, max: 400 }), (of, most) => {
      const { request, sums } = searchOf(drawnCase(of));
      const cells = unitsOf(request.site, 1) ?? [];
      const split: Split = {
        ...{ width: 1, stages: cells.length, replicas: 1, microBatch: 1, cells },
        ...{ microBatches: request.batch, isRecomputing: false, isSharded: false },
        bounds: [...cells.keys(), request.model.layers.length],
      };
      const setting = { site: request.site, sums };
      const { time, moments } = playedWithin(split, setting, most);
      expect(moments).toBeLessThanOrEqual(most);
      if (time === undefined) expect(moments).toBe(most);
      else expect(time).toEqual(playedStep(split, setting));
    }),
    { numRuns: caseCount(60) },
  );
});
