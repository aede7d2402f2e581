/** @file Laws of the searches for GPUs, against every subset of small clusters. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Appraised, Candidate } from "../../../domain/bandwidth-port.ts";
import { popCount } from "../../../domain/lease.ts";
import { eha } from "../../../scheduling/pick/balanced.ts";
import { compactPick } from "../../../scheduling/pick/compact.ts";
import { exactCounts } from "../../../scheduling/pick/exact-counts.ts";
import { allOptions } from "../../../scheduling/pick/host-options.ts";
import { hybrid } from "../../../scheduling/pick/hybrid.ts";
import { pts } from "../../../scheduling/pick/pruned-tree.ts";
import { byTies, type PickSearch } from "../../../scheduling/pick/search.ts";
import { searchPick } from "../../../scheduling/pick/search-pick.ts";
import { allPicks, bestOfAll, gbsOf, isAnswer, worlds, type World } from "./worlds.ts";

const RUNS = { numRuns: 300 };
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

describe("exact over counts", () => {
  test("has the best of all subsets", () => {
    law((world) => {
      const found = exactCounts(world);
      if (found !== undefined) expect(found.predictedGbs).toBe(bestOfAll(world));
    });
  });

  test("takes of all best subsets on its sets the one that leaves the larger whole hosts free", () => {
    law((world) => {
      const { predictor, freeMasks } = world;
      const { kindOf: _none, ...plain } = predictor;
      const found = exactCounts({ ...world, predictor: plain });
      if (found === undefined) return;
      const sizes = predictor.domain.hosts.map(({ gpuCount }) => gpuCount);
      const wholes = sizes.map((size, host) => popCount(freeMasks[host] ?? 0) === size);
      const options = allOptions(predictor.domain, freeMasks);
      const onBestSets = allPicks(world).filter((pick) =>
        pick.every(({ host, mask }) =>
          options.some((one) => one.host === host && one.masks.includes(mask)),
        ),
      );
      for (const pick of onBestSets)
        if (gbsOf(world, pick) === found.predictedGbs)
          expect(byTies(found.pick, pick, { wholes, sizes })).toBeLessThanOrEqual(0);
    });
  });

  test("finds the same bandwidth, and breaks as many whole hosts, when it is told which hosts are alike", () => {
    law((world) => {
      const { kindOf: _none, ...plain } = world.predictor;
      const told = exactCounts(world);
      const untold = exactCounts({ ...world, predictor: plain });
      expect(told?.predictedGbs).toBe(untold?.predictedGbs);
      const broken = (found: typeof told): number =>
        found?.pick.filter(
          ({ host }) =>
            popCount(world.freeMasks[host] ?? 0) === world.predictor.domain.hosts[host]?.gpuCount,
        ).length ?? 0;
      expect(broken(told)).toBe(broken(untold));
    });
  });
});

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
});

describe("EHA", () => {
  test("takes the best host that holds the gang", () => {
    law((world) => {
      const single = allPicks(world).filter((pick) => pick.length === 1);
      if (single.length > 0) expect(eha(world)?.predictedGbs).toBe(bestOfAll(world, single));
    });
  });

  test("uses as few hosts as can hold the gang, none of which could take a GPU from another that has two more", () => {
    law((world) => {
      const found = eha(world);
      if (found === undefined) return;
      const fewest = Math.min(...allPicks(world).map((pick) => pick.length));
      expect(found.pick).toHaveLength(fewest);
      const counts = found.pick.map(({ mask }) => popCount(mask));
      for (const [at, { host, mask }] of found.pick.entries()) {
        const hasRoom = popCount(mask) < popCount(world.freeMasks[host] ?? 0);
        if (hasRoom) expect(Math.max(...counts)).toBeLessThanOrEqual((counts[at] ?? 0) + 1);
      }
    });
  });
});

test("PTS loses in its last step the GPU whose loss costs least", () => {
  law((world) => {
    const found = pts(world);
    if (found === undefined || freeOf(world) !== world.gpus + 1) return;
    const isOneHost = world.freeMasks.some((mask) => popCount(mask) >= world.gpus);
    if (!isOneHost) expect(found.predictedGbs).toBe(bestOfAll(world));
  });
});
