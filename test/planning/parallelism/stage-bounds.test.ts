/** @file Stages of layers: the shortest busiest stage of all ways to cut, within memory; borders move only where a step gets shorter. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PlanModel } from "../../../planning/parallelism/models.ts";
import { unitsOf, type PlanSite } from "../../../planning/parallelism/site.ts";
import {
  isHeldEverywhere,
  shiftedBounds,
  stageBounds,
  type OpenSplit,
} from "../../../planning/parallelism/stage-bounds.ts";
import { layerSums } from "../../../planning/parallelism/split.ts";
import { stepTime } from "../../../planning/parallelism/step-time.ts";
import { allBounds, host, siteOf } from "./sites.ts";
import { caseCount } from "../../support/case-count.ts";

const modelOf = (flops: readonly number[], parameters = 1e6): PlanModel => ({
  name: "uneven",
  sample: "sample",
  splitOf: 1,
  layers: flops.map((cost, at) => ({
    name: `l${at}`,
    parameters: parameters * cost,
    forwardFlops: cost * 1e12,
    outputBytes: 2 ** 20 * (1 + ((at * 5) % 7)),
    activationBytes: 2 ** 20,
    tensorSyncs: 0,
  })),
});

const openSplit = (site: PlanSite, stages: number): OpenSplit => ({
  replicas: 1,
  stages,
  width: 1,
  microBatch: 1,
  microBatches: 4,
  isRecomputing: false,
  isSharded: false,
  cells: (unitsOf(site, 1) ?? []).slice(0, stages),
});

const cases = fc.record({
  flops: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 2, maxLength: 7 }),
  stages: fc.integer({ min: 1, max: 3 }),
  teraflops: fc.array(fc.constantFrom(100, 200, 300), { minLength: 3, maxLength: 3 }),
  memoryGiB: fc.constantFrom(4, 8, 80),
});

test("the busiest stage is as short as in the best of all cuts, and no stage exceeds its card", () => {
  fc.assert(
    fc.property(cases, ({ flops, stages, teraflops, memoryGiB }) => {
      const site = siteOf(
        ...teraflops.map((speed, at) => host(`h${at}`, 1, { teraflops: speed, memoryGiB })),
      );
      const sums = layerSums(modelOf(flops, 2e7));
      const open = openSplit(site, stages);
      const busiest = (bounds: readonly number[]): number =>
        Math.max(
          ...bounds
            .slice(1)
            .map(
              (to, stage) =>
                ((sums.flops[to] ?? 0) - (sums.flops[bounds[stage] ?? 0] ?? 0)) /
                (teraflops[stage] ?? 1),
            ),
        );
      const held = allBounds(flops.length, stages).filter(
        (bounds) => stages <= flops.length && isHeldEverywhere({ ...open, bounds }, site, sums),
      );
      const found = stageBounds(open, site, sums);
      if (held.length === 0 || stages > flops.length) {
        expect(found).toBeUndefined();
        return;
      }
      if (found === undefined) throw new Error("a cut that holds was missed");
      expect(held).toContainEqual(found);
      expect(busiest(found)).toBeLessThanOrEqual(Math.min(...held.map(busiest)) * (1 + 1e-6));
    }),
    { numRuns: caseCount(200) },
  );
});

test("moved borders never make the step longer, and keep their order and the cards", () => {
  fc.assert(
    fc.property(cases, ({ flops, stages, teraflops }) => {
      fc.pre(stages <= flops.length);
      const site = siteOf(...teraflops.map((speed, at) => host(`h${at}`, 1, { teraflops: speed })));
      const sums = layerSums(modelOf(flops));
      for (const bounds of allBounds(flops.length, stages)) {
        const split = { ...openSplit(site, stages), bounds };
        const moved = shiftedBounds(split, site, sums);
        expect(isHeldEverywhere(moved, site, sums)).toBe(true);
        expect(allBounds(flops.length, stages)).toContainEqual(moved.bounds);
        expect(stepTime(moved, { site, sums }).totalMs).toBeLessThanOrEqual(
          stepTime(split, { site, sums }).totalMs,
        );
      }
    }),
    { numRuns: caseCount(50) },
  );
});
