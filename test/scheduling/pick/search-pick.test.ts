/** @file The product's search: exact within its budget, never worse than the answers it starts from, and true to its limits. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { eha } from "../../../scheduling/pick/balanced.ts";
import { compactPick } from "../../../scheduling/pick/compact.ts";
import { exactCounts } from "../../../scheduling/pick/exact-counts.ts";
import { allOptions } from "../../../scheduling/pick/host-options.ts";
import { searchPick } from "../../../scheduling/pick/search-pick.ts";
import { allPicks, bestOfAll, gbsOf, isAnswer, worlds, type World } from "./worlds.ts";
import { caseCount } from "../../support/case-count.ts";

const RUNS = { numRuns: caseCount(300) };
const law = (check: (world: World) => void): void => fc.assert(fc.property(worlds(), check), RUNS);

describe("ours", () => {
  test("is exact where all ways fit into the budget", () => {
    law((world) => {
      expect(searchPick(world)?.predictedGbs).toBe(exactCounts(world)?.predictedGbs);
    });
  });

  test("is never predicted to be worse than EHA, the compact choice and what the caller names, however small the budget", () => {
    fc.assert(
      fc.property(worlds(), fc.integer({ min: 0, max: 60 }), (world, work) => {
        const picks = allPicks(world);
        const also = picks.slice(0, 1);
        const found = searchPick({ ...world, also }, { work });
        if (found === undefined) return;
        expect(isAnswer(world, found.pick)).toBe(true);
        const options = allOptions(world.predictor.domain, world.freeMasks);
        const compact = compactPick(options, world.gpus);
        const rivals = [...also, ...(compact === undefined ? [] : [compact])];
        const least = Math.max(...rivals.map((pick) => gbsOf(world, pick)));
        expect(found.predictedGbs).toBeGreaterThanOrEqual(least);
        const ofEha = eha(world, { work: work / 5 });
        expect(found.predictedGbs).toBeGreaterThanOrEqual(ofEha?.predictedGbs ?? 0);
      }),
      RUNS,
    );
  });

  test("keeps to one host where it must", () => {
    law((world) => {
      const found = searchPick({ ...world, isSameHost: true });
      const single = allPicks(world).filter((pick) => pick.length === 1);
      if (found === undefined) expect(single).toEqual([]);
      else expect(found.predictedGbs).toBe(bestOfAll(world, single));
    });
  });

  test("has the highest score where something else than bandwidth counts", () => {
    law((world) => {
      const score = (pick: { readonly length: number }, gbs: number): number => gbs / pick.length;
      const found = searchPick({ ...world, score });
      const scores = allPicks(world).map((pick) => score(pick, gbsOf(world, pick)));
      if (found !== undefined) expect(found.score).toBe(Math.max(...scores));
    });
  });

  test("keeps its share of the best bandwidth where a score would give up more", () => {
    law((world) => {
      const { predictor } = world;
      const score = (candidate: Candidate, gbs: number) => gbs / candidate.length ** 3;
      const most = exactCounts(world)?.predictedGbs ?? 0;
      const found = searchPick({ ...world, score, leastShare: 0.9 }, { work: 1e9 });
      if (found === undefined) return;
      expect(found.predictedGbs).toBeGreaterThanOrEqual(0.9 * most);
      expect(found.score).toBe(score(found.pick, predictor.predict([found.pick])[0] ?? NaN));
    });
  });
});
