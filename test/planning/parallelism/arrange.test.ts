/** @file Arrangements of stages and replicas: plain orders, the two levels, and the integer program against every assignment. */
import { describe, expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import {
  byReplica,
  byStage,
  cellGraph,
  hostProgramme,
  twoLevels,
} from "../../../planning/parallelism/arrange.ts";
import { checkCut, cutWeight } from "../../../planning/parallelism/cut-graph.ts";
import { unitsOf } from "../../../planning/parallelism/site.ts";
import { highsSolver, solverFor } from "../../../solvers/index.ts";
import { host, siteOf } from "./sites.ts";

describe("plain arrangements", () => {
  const grid = { stages: 2, replicas: 3, sendBytes: [100], reduceBytes: [1, 1] };
  const units = unitsOf(siteOf(host("a", 6)), 1) ?? [];
  const ranks = (cells: readonly { readonly firstRank: number }[]): readonly number[] =>
    cells.map(({ firstRank }) => firstRank);

  test("keep replicas together by stage, and pipelines together by replica", () => {
    expect(ranks(byStage(grid, units))).toEqual([0, 1, 2, 3, 4, 5]);
    expect(ranks(byReplica(grid, units))).toEqual([0, 2, 4, 1, 3, 5]);
  });

  test("a cell sends to its next stage and shares gradients with its replicas", () => {
    const graph = cellGraph({ stages: 2, replicas: 2, sendBytes: [5], reduceBytes: [2, 3] });
    expect(cutWeight(graph, Int32Array.of(0, 0, 1, 1))).toBe(2 * 5);
    expect(cutWeight(graph, Int32Array.of(0, 1, 0, 1))).toBe((4 * 2) / 2 + (4 * 3) / 2);
  });
});

describe("two levels", () => {
  const grid = { stages: 2, replicas: 2, sendBytes: [100], reduceBytes: [1, 1] };
  const site = siteOf(host("a", 2), host("b", 2));

  test("keep a pipeline within a host where activations outweigh gradients", async () => {
    const found = await twoLevels(grid, {
      site,
      units: unitsOf(site, 1) ?? [],
      random: randomFrom(1),
      solver: solverFor,
    });
    const hosts = found?.cells.map(({ host: at }) => at) ?? [];
    expect(hosts[0]).toBe(hosts[2]);
    expect(hosts[1]).toBe(hosts[3]);
    expect(found?.programmes).toEqual(["optimal"]);
  });

  test("both solvers give the programme the weight that trying every assignment gives", async () => {
    const graph = cellGraph({ stages: 3, replicas: 2, sendBytes: [9, 4], reduceBytes: [2, 7, 1] });
    const problem = hostProgramme(graph, [2, 4]);
    const scale = Math.max(...graph.edgeWeights);
    let best = Infinity;
    for (let mask = 0; mask < 64; mask += 1) {
      const parts = Int32Array.from({ length: 6 }, (_, cell) => ((mask >> cell) & 1 ? 1 : 0));
      let weight = 0;
      for (let a = 0; a < 6; a += 1)
        for (let edge = graph.starts[a] ?? 0; edge < (graph.starts[a + 1] ?? 0); edge += 1)
          if ((graph.neighbours[edge] ?? 0) > a && parts[graph.neighbours[edge] ?? 0] !== parts[a])
            weight += graph.edgeWeights[edge] ?? 0;
      if (checkCut(graph, { parts, weight }, [2, 4]) === undefined) best = Math.min(best, weight);
    }
    for (const solver of [highsSolver, solverFor(problem)]) {
      const answer = await solver.solve(problem, { timeLimitMs: 20_000 });
      expect("objective" in answer ? answer.objective * scale : NaN).toBeCloseTo(best, 6);
    }
  });
});
