/** @file Layers move between stages only where the played step gets shorter, until no move of one layer helps. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { withMovedLayers } from "../../../planning/parallelism/moved-layers.ts";
import { playersByFloors, type Player } from "../../../planning/parallelism/player.ts";
import { unitsOf } from "../../../planning/parallelism/site.ts";
import { layerSums, type Split } from "../../../planning/parallelism/split.ts";
import { playedStep } from "../../../planning/parallelism/step-time.ts";
import { caseCount } from "../../support/case-count.ts";
import { allBounds, host, siteOf } from "./sites.ts";

const drawn = fc.record({
  flops: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 4, maxLength: 8 }),
  outputs: fc.array(fc.integer({ min: 1, max: 64 }), { minLength: 8, maxLength: 8 }),
  stages: fc.integer({ min: 2, max: 4 }),
  start: fc.nat(),
  paid: fc.constantFrom(0, 1, 5, Infinity),
});

test("no move of a layer from a stage to another is left that helps, nor more played than is paid for", () => {
  fc.assert(
    fc.property(drawn, ({ flops, outputs, stages, start, paid }) => {
      const site = siteOf(
        ...Array.from({ length: stages }, (_, at) =>
          host(`c${at}/h`, 1, { cluster: `c${Math.floor(at / 2)}` }),
        ),
      );
      const model = {
        ...{ name: "uneven", sample: "sample", splitOf: 1 },
        layers: flops.map((cost, at) => ({
          ...{ name: `l${at}`, parameters: 1e6, forwardFlops: cost * 1e12 },
          outputBytes: 2 ** 20 * (outputs[at] ?? 1),
          ...{ activationBytes: 2 ** 20, tensorSyncs: 0 },
        })),
      };
      const sums = layerSums(model);
      const ways = allBounds(flops.length, stages);
      const split = (bounds: readonly number[]): Split => ({
        ...{ replicas: 1, stages, width: 1, microBatch: 1, microBatches: 4, bounds },
        ...{ isRecomputing: false, isSharded: false, cells: unitsOf(site, 1) ?? [] },
      });
      const stepOf = (bounds: readonly number[]): number =>
        playedStep(split(bounds), { site, sums }).totalMs;
      const first = split(ways[start % ways.length] ?? []);
      const search = { request: { model, site, batch: 4 }, sums, tried: 0 };
      const { play, pass } = playersByFloors(search)(Infinity);
      let played = 0;
      const player: Player = {
        play: (of, thanMs) => {
          if (played >= paid) return undefined;
          played += 1;
          return play(of, thanMs);
        },
        pass,
        isSpent: () => played >= paid,
      };
      const found = withMovedLayers(
        { split: first, time: playedStep(first, { site, sums }), arrangement: "" },
        search,
        { player },
      );
      const got = found.time.totalMs;
      expect(got).toBeCloseTo(stepOf(found.split.bounds), 9);
      expect(got).toBeLessThanOrEqual(stepOf(first.bounds));
      if (paid < Infinity) expect(played).toBeLessThanOrEqual(paid);
      else
        for (const bounds of ways) {
          const moved = bounds.map((bound, at) => bound - (found.split.bounds[at] ?? 0));
          const by = moved.filter((own) => own !== 0);
          const isOneMove =
            new Set(by).size === 1 &&
            Math.abs(by[0] ?? 0) === 1 &&
            moved.lastIndexOf(by[0] ?? 0) - moved.indexOf(by[0] ?? 0) === by.length - 1;
          if (isOneMove) expect(stepOf(bounds)).toBeGreaterThanOrEqual(got - 2e-9);
        }
    }),
    { numRuns: caseCount(60) },
  );
});
