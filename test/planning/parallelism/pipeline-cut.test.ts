/** @file Operators in the stages of a pipeline: acyclic, whole, held in memory, and the slowest stage beside the optimum. */

import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import type { ModelGraph } from "../../../domain/model/model-graph.ts";
import { parseMsrGraph } from "../../../domain/model/parse-msr-graph.ts";
import { randomFrom } from "../../../lib/random.ts";
import { linearCut, orderBy } from "../../../planning/parallelism/linear-cut.ts";
import { pipelineCut } from "../../../planning/parallelism/pipeline-cut.ts";
import { pipelineGraph } from "../../../planning/parallelism/pipeline-graph.ts";
import { checkPipeline, type PipelineTask } from "../../../planning/parallelism/pipeline-stages.ts";
import { idealBottleneck } from "../../../bench/rivals/parallelism/ideal-cut.ts";
import { caseCount } from "../../support/case-count.ts";
import { bestBottleneck, smallTasks } from "./pipeline-oracle.ts";

const EFFORT = { drawn: 8, starts: 3, steps: 3_000 };
const cutOf = (task: PipelineTask) => pipelineCut({ task, random: randomFrom(1), effort: EFFORT });

/** The same stages, each as the first one. */
const alike = (task: PipelineTask): PipelineTask => ({
  ...task,
  stages: task.stages.flatMap(() => task.stages[0] ?? []),
});

describe("a pipeline of a small graph", () => {
  test("is sound, and its slowest stage takes at most 1.05 times that of the best of all", () => {
    fc.assert(
      fc.property(smallTasks(), (task) => {
        const best = bestBottleneck(task);
        const answer = cutOf(task);
        expect(answer.kind).toBe(best === undefined ? "blocked" : "cut");
        if (answer.kind === "blocked" || best === undefined) return;
        expect(checkPipeline(task, answer.pick)).toBeUndefined();
        expect(answer.pick.bottleneckMs).toBeGreaterThanOrEqual(best - 1e-9);
        expect(answer.pick.bottleneckMs).toBeLessThanOrEqual(1.05 * best + 1e-9);
      }),
      { numRuns: caseCount(150) },
    );
  });

  test("is the optimum of a chain", () => {
    fc.assert(
      fc.property(smallTasks(true), (task) => {
        const best = bestBottleneck(task);
        const answer = cutOf(task);
        if (best === undefined) expect(answer.kind).toBe("blocked");
        else expect(answer.kind === "cut" ? answer.pick.bottleneckMs : NaN).toBeCloseTo(best, 9);
      }),
      { numRuns: caseCount(150) },
    );
  });

  test("the optimum over ideals is that of all pipelines, where stages are alike", () => {
    fc.assert(
      fc.property(smallTasks().map(alike), (task) => {
        const limits = { knownMs: 1e9, mostIdeals: 1_000 };
        expect(idealBottleneck(task, limits) ?? Infinity).toBeCloseTo(
          bestBottleneck(task) ?? Infinity,
          9,
        );
      }),
      { numRuns: caseCount(150) },
    );
  });
});

test("the best runs of one order are exact, also beside memory that no filling from the front finds", () => {
  const task: PipelineTask = {
    graph: {
      members: [[0], [1], [2]],
      workMs: Float64Array.of(1, 1, 4),
      parameterBytes: Float64Array.of(0, 0, 0),
      keptBytes: Float64Array.of(2, 2, 1),
      ...{ after: [[1], [2], []], before: [[], [0], [1]] },
      tensors: [
        { ends: [0, 1], bytes: 3 },
        { ends: [1, 2], bytes: 1 },
      ],
    },
    stages: [
      { speed: 1, memoryBytes: 4, inFlight: 2, msPerByte: 1 },
      { speed: 1, memoryBytes: 4, inFlight: 1, msPerByte: 1 },
    ],
    heldPerParameterByte: 1,
  };
  // The lighter border, after the second operator, would keep 8 bytes in the first stage.
  expect(linearCut(task, [0, 1, 2])).toEqual({ stageOf: Int32Array.of(0, 1, 1), bottleneckMs: 8 });
});

const node = (id: string, rest: Partial<ModelGraph["nodes"][number]> = {}) => ({
  ...{ id, name: id, forwardMs: 1, backwardMs: 0, parameterBytes: 0, outputBytes: 8 },
  ...{ isBackward: false, isAcceleratable: true },
  ...rest,
});

describe("operators of a model's graph", () => {
  it("run backward where they run forward, and what lies between nodes of one group goes with them", () => {
    const graph: ModelGraph = {
      name: "trained",
      nodes: [
        node("a", { group: "1", parameterBytes: 4 }),
        node("b", { group: "2" }),
        node("b'", { group: "2", isBackward: true, forwardMs: 0, backwardMs: 2 }),
        node("a'", { group: "1", isBackward: true, forwardMs: 0, backwardMs: 2 }),
        node("c", { group: "3" }),
        node("d"),
        node("e", { group: "3" }),
      ],
      edges: [
        { from: 0, to: 1, bytes: 8 },
        { from: 1, to: 2, bytes: 8 },
        { from: 2, to: 3, bytes: 8 },
        { from: 1, to: 4, bytes: 8 },
        { from: 4, to: 5, bytes: 8 },
        { from: 5, to: 6, bytes: 8 },
      ],
    };
    const found = pipelineGraph(graph);
    expect(found.members).toEqual([
      [0, 3],
      [1, 2],
      [4, 5, 6],
    ]);
    expect([...found.workMs]).toEqual([3, 3, 3]);
    expect(found.after).toEqual([[1], [2], []]);
    // Activation and gradient over the first border, an activation alone over the second.
    expect(found.tensors).toEqual([
      { ends: [0, 1], bytes: 4 },
      { ends: [1, 2], bytes: 4 },
      { ends: [1, 0], bytes: 4 },
    ]);
  });

  test("every node is in one operator, and operators have an order, whatever the groups", () => {
    const drawn = fc.record({
      nodes: fc.array(
        fc.record({ group: fc.option(fc.constantFrom("1", "2", "3")), isBackward: fc.boolean() }),
        { minLength: 1, maxLength: 9 },
      ),
      edges: fc.array(fc.tuple(fc.nat({ max: 8 }), fc.nat({ max: 8 })), { maxLength: 14 }),
    });
    fc.assert(
      fc.property(drawn, ({ nodes, edges }) => {
        const graph: ModelGraph = {
          name: "drawn",
          nodes: nodes.map(({ group, isBackward }, at) =>
            node(String(at), { isBackward, ...(group !== null && { group }) }),
          ),
          edges: edges
            .filter(([from, to]) => from < to && to < nodes.length)
            .map(([from, to]) => ({ from, to, bytes: 8 })),
        };
        const found = pipelineGraph(graph);
        const placed = found.members.flat().sort((a, b) => a - b);
        expect(placed).toEqual(nodes.map((_, at) => at));
        const order = orderBy(found, (operator) => operator);
        expect(order).toHaveLength(found.members.length);
      }),
      { numRuns: caseCount(150) },
    );
  });

  it("of a published training graph are half as many as its nodes: each has its backward pass", () => {
    const bytes = readFileSync("data/model-graphs/msr/layers_bert24_training.json.gz");
    const read = parseMsrGraph(gunzipSync(bytes).toString("utf8"), "bert24");
    if (read.kind === "refused") throw new Error(read.problems[0]?.message);
    expect(read.graph.nodes.filter(({ isBackward }) => isBackward)).toHaveLength(32);
    expect(pipelineGraph(read.graph).members).toHaveLength(32);
  });
});

test("fewer operators than stages are refused with both counts", () => {
  const [task] = fc.sample(smallTasks(), { numRuns: 1, seed: 1 });
  if (task === undefined) throw new Error("none");
  const [stage] = task.stages;
  const stages = Array.from({ length: 9 }, () => stage).flatMap((each) => each ?? []);
  const answer = cutOf({ ...task, stages });
  expect(answer.kind === "blocked" ? answer.message : "").toMatch(/operators do not make 9 stages/);
});
