/** @file Plans of profiled graphs: operators cut into stages where that shortens the step, and the assignment of each operator. */

import { readFileSync } from "node:fs";
import { describe, expect, it, test } from "vitest";
import type { GraphNode, ModelGraph } from "../../../domain/model/model-graph.ts";
import { parsePipeDream } from "../../../domain/model/parse-pipedream.ts";
import { randomFrom } from "../../../lib/random.ts";
import { graphModel, rowModel } from "../../../planning/parallelism/models.ts";
import { operatorAssignment } from "../../../planning/parallelism/operator-assignment.ts";
import { planModel } from "../../../planning/parallelism/plan-operators.ts";
import { planTraining, type PlanRequest } from "../../../planning/parallelism/plan.ts";
import { writtenSite } from "../../../cli/planning/site-source.ts";

const node = (id: string, forwardMs: number, outputBytes: number): GraphNode => ({
  ...{ id, name: id, forwardMs, backwardMs: 2 * forwardMs, parameterBytes: 4e6, outputBytes },
  ...{ isBackward: false, isAcceleratable: true },
});

/** Two branches that meet in the end; the file names their operators in turn, so each border within it cuts both. */
const BRANCHES: ModelGraph = {
  name: "branches",
  nodes: [
    node("in", 1, 1e6),
    node("a1", 10, 8e8),
    node("b1", 10, 8e8),
    node("a2", 10, 1e6),
    node("b2", 10, 1e6),
    node("out", 1, 1e3),
  ],
  edges: [
    [0, 1],
    [0, 2],
    [1, 3],
    [2, 4],
    [3, 5],
    [4, 5],
  ].map(([from = 0, to = 0]) => ({ from, to, bytes: 1 })),
};

const requestOf = (graph: ModelGraph, gpus: string, batch: number): PlanRequest => ({
  model: graphModel(graph, 125),
  site: writtenSite(gpus, { hasNvlink: true }),
  batch,
  random: randomFrom(1, "plan"),
});

describe("a plan of a graph", () => {
  it("cuts branches that lie in turn into a stage each, and sends small tensors alone", async () => {
    const request = requestOf(BRANCHES, "x/a:1:V100-32,x/b:1:V100-32", 8);
    const plain = await planTraining({ ...request, fixed: { stages: 2 } });
    const { answer, model } = await planModel({ ...request, fixed: { stages: 2 } });
    if (plain.kind === "blocked" || answer.kind === "blocked") throw new Error("blocked");
    expect(answer.plan.stepMs).toBeLessThan(0.8 * plain.plan.stepMs);
    const { operators = [], stages } = operatorAssignment(model, answer.plan, request.site) ?? {};
    const stageOf = new Map(operators.map(({ id, stage }) => [id, stage]));
    expect([stageOf.get("a1"), stageOf.get("b1")]).toEqual([stageOf.get("a2"), stageOf.get("b2")]);
    expect(stageOf.get("a1")).not.toBe(stageOf.get("b1"));
    expect(stages?.map(({ gpus }) => gpus)).toEqual([["x/a:0"], ["x/b:0"]]);
  });

  it("assigns every operator once, none before what it reads, and is never slower than the file's order", async () => {
    const text = readFileSync("data/model-graphs/pipedream/gnmt.txt", "utf8");
    const read = parsePipeDream(text, "gnmt.txt");
    if (read.kind === "refused") throw new Error(read.problems[0]?.message);
    const request = requestOf(read.graph, "x/a:4:V100-32,x/b:4:V100-32", 16);
    const fixed = { stages: 4 };
    const plain = await planTraining({ ...request, fixed });
    const { answer, model } = await planModel({ ...request, fixed });
    if (plain.kind === "blocked" || answer.kind === "blocked") throw new Error("blocked");
    expect(answer.plan.stepMs).toBeLessThanOrEqual(plain.plan.stepMs);
    expect(answer.plan.split.stages).toBe(4);
    const { operators = [] } = operatorAssignment(model, answer.plan, request.site) ?? {};
    expect(operators.map(({ id }) => id).sort()).toEqual(
      read.graph.nodes.map(({ id }) => id).sort(),
    );
    const stageOf = new Map(operators.map(({ id, stage }) => [id, stage]));
    const idOf = (at: number): string => read.graph.nodes[at]?.id ?? "";
    for (const { from, to } of read.graph.edges)
      expect(stageOf.get(idOf(from))).toBeLessThanOrEqual(stageOf.get(idOf(to)) ?? -1);
  });

  test("keeps the borders of its stages where more operators than layers are joined", () => {
    const nodes = Array.from({ length: 600 }, (_, at) => node(`n${at}`, 1, at));
    const edges = nodes.slice(1).map((_, at) => ({ from: at, to: at + 1, bytes: 1 }));
    const { profiled } = graphModel({ name: "long", nodes, edges }, 125);
    if (profiled === undefined) throw new Error("none");
    const order = nodes.map((_, at) => at);
    const { layers } = rowModel(profiled, order, [300, 599]);
    expect(layers).toHaveLength(256);
    const firsts = layers.map(({ operators = [] }) => operators[0]);
    expect([firsts.includes(300), firsts.includes(599)]).toEqual([true, true]);
    expect(layers.flatMap(({ operators = [] }) => operators)).toEqual(order);
  });
});
