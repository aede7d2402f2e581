/** @file `bench plan`: graphs of every format, cuts that count, and the arrivals of the allocator. */

import { describe, expect, it, test } from "vitest";
import { randomFrom } from "../../lib/random.ts";
import { geneticCut } from "../../bench/plan/genetic-cut.ts";
import { measureFragmentation } from "../../bench/plan/fragmentation.ts";
import { dataPath } from "../../bench/plan/files.ts";
import { drawnGraph, GRAPH_KINDS, modelGraphOf, readCutGraph } from "../../bench/plan/graphs.ts";
import { measureOwnGraph, readReferences, sharesOf } from "../../bench/plan/cuts.ts";
import { measureOwnPipelines, readOperators } from "../../bench/plan/pipelines.ts";
import { measureShares } from "../../bench/plan/shares.ts";
import { cutGraph } from "../../planning/parallelism/cut.ts";
import { capacitiesOf, checkCut } from "../../planning/parallelism/cut-graph.ts";

describe("drawn graphs", () => {
  test.each(GRAPH_KINDS)("of the %s kind have their size and hang together", (kind) => {
    const graph = drawnGraph(kind, { nodes: 60, edges: 200 }, 1);
    expect(graph.neighbours).toHaveLength(400);
    const seen = new Set([0]);
    for (const node of seen)
      for (const other of graph.neighbours.slice(graph.starts[node], graph.starts[node + 1]))
        seen.add(other);
    expect(seen.size).toBe(60);
  });

  it("are cut as well as the best known, within 6 %, also without any slack", () => {
    const references = readReferences();
    for (const parts of ["4", "16"]) {
      const graph = drawnGraph("clustered", { nodes: 128, edges: 512 }, 2);
      const capacities = capacitiesOf(graph, sharesOf(parts), 0.03);
      const answer = cutGraph(graph, { capacities, random: randomFrom(1, "cut") });
      if (answer.kind === "blocked") throw new Error(answer.message);
      expect(checkCut(graph, answer.pick, capacities)).toBeUndefined();
      const best = references.get(`clustered-128-512-2/${parts}`) ?? NaN;
      expect(answer.pick.weight / best).toBeLessThanOrEqual(1.06);
    }
  });
});

describe("graph files", () => {
  const triangle = [
    { file: "t.graph", text: "3 3 011\n1 2 5 3 7\n1 1 5 3 1\n2 1 7 2 1\n" },
    { file: "t.graph", text: "% a comment\n3 3 1\n2 5 3 7\n1 5 3 1\n1 7 2 1\n" },
    { file: "t.txt", text: "0 1 5\n0 2 7\n1 2 1\n" },
  ];
  test.each(triangle)("$file: $text", ({ file, text }) => {
    const read = readCutGraph(text, file);
    if (read.kind === "refused") throw new Error(read.problems[0]?.message);
    expect([...read.graph.edgeWeights].sort()).toEqual([1, 1, 5, 5, 7, 7]);
  });

  test.each([
    { file: "t.graph", text: "3 3\n2 3\n1 3\n", want: /says 3 nodes, 2 lines follow/ },
    { file: "t.graph", text: "2 1\n3\n1\n", want: /node 1 has the neighbour 3/ },
    { file: "t.graph", text: "2 2\n2\n1\n", want: /says 2 edges, the lines hold 1/ },
    { file: "t.txt", text: "a b\n", want: /no number/ },
    { file: "t.txt", text: "1 2 3 4\n", want: /4 numbers/ },
  ])("refuses $text", ({ file, text, want }) => {
    const read = readCutGraph(text, file);
    expect(read.kind === "refused" ? read.problems[0]?.message : "").toMatch(want);
  });
});

test("the genetic rival's cuts hold", () => {
  const graph = drawnGraph("uniform", { nodes: 40, edges: 100 }, 1);
  const capacities = capacitiesOf(graph, [1, 1], 0.1);
  const cut = geneticCut(graph, capacities, { seed: 1, limitMs: 50 });
  if (cut === undefined) throw new Error("none");
  expect(checkCut(graph, cut, capacities)).toBeUndefined();
});

test("no way of handing out GPUs gives another number than was asked for", () => {
  const { bars } = measureFragmentation(3);
  expect(bars.find(({ id }) => id === "buddy-wrong-counts")).toMatchObject({ got: 0, holds: true });
});

test("the figures of 1, 2 and 4 clusters hold", () => {
  expect(measureShares().bars.map(({ holds }) => holds)).toEqual([true, true, true]);
});

describe("what cannot be cut is bad input, and no bug", () => {
  const setting = {
    ...{ seed: 1, seeds: 1, rivals: 0, rivalMs: 1_000 },
    parts: ["4"],
    say: () => undefined,
  };

  test("a file that is not there is named, with what would do", () => {
    expect(() => measureOwnGraph("no/such.graph", setting)).toThrowError(
      expect.objectContaining({
        code: "BAD_INPUT",
        message: expect.stringContaining("no/such.graph"),
      }),
    );
  });

  test.each(["1", "5000", "2.5", "many"])("--parts %s", (parts) => {
    expect(() => sharesOf(parts)).toThrowError(
      expect.objectContaining({ code: "BAD_INPUT", message: expect.stringContaining(parts) }),
    );
  });
});

test("a model's own graph gets pipelines with the stage of each operator, and an undirected one none", () => {
  const file = "pipedream/alexnet.txt";
  const graph = readOperators(dataPath(`model-graphs/${file}`), file);
  if (graph === undefined) throw new Error("none");
  const { bars, found } = measureOwnPipelines(graph, [4]);
  expect(bars.map(({ id, holds }) => [id, holds])).toEqual([["pipeline-4", true]]);
  const stages = new Map(found[0]?.assignment);
  expect([...stages.keys()].sort()).toEqual(graph.nodes.map(({ id }) => id).sort());
  for (const { from, to } of graph.edges)
    expect(stages.get(graph.nodes[from]?.id ?? "")).toBeLessThanOrEqual(
      stages.get(graph.nodes[to]?.id ?? "") ?? -1,
    );
  expect(modelGraphOf("0 1 5\n1 2 5\n", "t.txt")).toBeUndefined();
});
