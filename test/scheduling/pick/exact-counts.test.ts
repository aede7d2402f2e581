/** @file Exact over per-host counts, against every subset of small clusters. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { popCount } from "../../../domain/lease/lease.ts";
import { countWays, exactCounts } from "../../../scheduling/pick/exact-counts.ts";
import { allOptions } from "../../../scheduling/pick/host-options.ts";
import { byTies } from "../../../scheduling/pick/search.ts";
import { allPicks, bestOfAll, gbsOf, worlds, type World } from "./worlds.ts";
import { caseCount } from "../../support/case-count.ts";

const RUNS = { numRuns: caseCount(300) };
const law = (check: (world: World) => void): void => fc.assert(fc.property(worlds(), check), RUNS);

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
      const notified = exactCounts(world);
      const untold = exactCounts({ ...world, predictor: plain });
      expect(notified?.predictedGbs).toBe(untold?.predictedGbs);
      const broken = (found: typeof notified): number =>
        found?.pick.filter(
          ({ host }) =>
            popCount(world.freeMasks[host] ?? 0) === world.predictor.domain.hosts[host]?.gpuCount,
        ).length ?? 0;
      expect(broken(notified)).toBe(broken(untold));
    });
  });
});

test("as many ways are counted as there are splits of the gang over the hosts", () => {
  law(({ predictor, freeMasks, gpus }) => {
    const hosts = allOptions(predictor.domain, freeMasks);
    const splits = hosts.reduce(
      (ways, { free }) =>
        ways.map((_, open) =>
          ways.slice(Math.max(0, open - free), open + 1).reduce((a, b) => a + b, 0),
        ),
      [1, ...Array.from({ length: gpus }, () => 0)],
    );
    expect(countWays(hosts, gpus)).toBe(splits[gpus]);
  });
});
