/** @file Laws of the searches for GPUs, against every subset of small clusters. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Appraised, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { eha } from "../../../scheduling/pick/balanced.ts";
import { exactCounts } from "../../../scheduling/pick/exact-counts.ts";
import { hybrid } from "../../../bench/rivals/pick/hybrid.ts";
import { pts } from "../../../bench/rivals/pick/pruned-tree.ts";
import type { PickSearch } from "../../../scheduling/pick/search.ts";
import { searchPick } from "../../../scheduling/pick/search-pick.ts";
import { bestOfAll, gbsOf, isAnswer, worlds, type World } from "./worlds.ts";
import { caseCount } from "../../support/case-count.ts";

const RUNS = { numRuns: caseCount(300) };
const freeOf = ({ freeMasks }: World): number =>
  freeMasks.reduce((sum, mask) => sum + popCount(mask), 0);
const law = (check: (world: World) => void): void => fc.assert(fc.property(worlds(), check), RUNS);

const SEARCHES: readonly (readonly [string, PickSearch])[] = [
  ["exact", exactCounts],
  ["ours", searchPick],
  ["EHA", eha],
  ["PTS", pts],
  ["hybrid", hybrid],
];

describe.each(SEARCHES)("%s", (_, search) => {
  test("picks as many free GPUs as wanted, or nothing when there are too few", () => {
    law((world) => {
      const found = search(world);
      if (freeOf(world) < world.gpus) expect(found).toBeUndefined();
      else expect(found !== undefined && isAnswer(world, found.pick)).toBe(true);
    });
  });

  test("tells the prediction of what it picked", () => {
    law((world) => {
      const found = search(world);
      if (found !== undefined) expect(found.predictedGbs).toBe(gbsOf(world, found.pick));
    });
  });
});

describe.each(SEARCHES.filter(([name]) => name === "exact" || name === "ours"))(
  "%s, where some predictions cannot be counted on",
  (_, search) => {
    test("takes what most can be counted on of, and tells its prediction", () => {
      law((world) => {
        const { kindOf: _none, ...predictor } = world.predictor;
        const appraise = (picks: readonly Candidate[]): readonly Appraised[] =>
          predictor.predict(picks).map((predictedGbs, at) => ({
            predictedGbs,
            countedGbs: picks[at]?.length === 2 ? predictedGbs / 2 : predictedGbs,
          }));
        const found = search({ ...world, predictor: { ...predictor, appraise } }, { work: 1e6 });
        if (found === undefined) return;
        expect(found.predictedGbs).toBe(gbsOf(world, found.pick));
        expect(found.score).toBe(found.predictedGbs / (found.pick.length === 2 ? 2 : 1));
        const exact = exactCounts({ ...world, predictor: { ...predictor, appraise } });
        expect(found.score).toBe(exact?.score);
      });
    });
  },
);

test("PTS loses in its last step the GPU whose loss costs least", () => {
  law((world) => {
    const found = pts(world);
    if (found === undefined || freeOf(world) !== world.gpus + 1) return;
    const isOneHost = world.freeMasks.some((mask) => popCount(mask) >= world.gpus);
    if (!isOneHost) expect(found.predictedGbs).toBe(bestOfAll(world));
  });
});
