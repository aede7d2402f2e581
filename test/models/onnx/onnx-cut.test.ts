/** @file Models cut into parts: whatever the cut, the parts give the whole's answers; costs and graphs made of a trace. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkOperatorGraph } from "../../../domain/model/operator-graph.ts";
import { cutOnnx, type OnnxPart } from "../../../models/onnx/onnx-cut.ts";
import { trialFeeds } from "../../../models/onnx/onnx-feeds.ts";
import { readOnnxModel, type OnnxModel } from "../../../models/onnx/onnx-model.ts";
import { onnxOperatorGraph } from "../../../models/onnx/onnx-operator-graph.ts";
import { branchySample, transformerSample } from "../../../models/onnx/onnx-samples.ts";
import { openOnnx, type TensorValue } from "../../../models/onnx/onnx-session.ts";
import { traceOnnx } from "../../../models/onnx/onnx-trace.ts";
import { caseCount } from "../../support/case-count.ts";

type Tensors = ReadonlyMap<string, TensorValue>;

const SAMPLES = [
  ["branchy", branchySample({ side: 12, width: 4, depth: 1 })],
  ["transformer", transformerSample({ blocks: 1, width: 16, heads: 2 })],
] as const;

function read(bytes: Uint8Array): OnnxModel {
  const answer = readOnnxModel(bytes, "sample");
  if (answer.kind === "refused") throw new Error(answer.message);
  return answer.model;
}

function feedsOf(model: OnnxModel, otherwise: number): Tensors {
  const made = trialFeeds(model, { bindings: new Map(), otherwise, whole: 1 });
  if (made.kind === "refused") throw new Error(made.message);
  return made.feeds.values;
}

async function runParts(parts: readonly OnnxPart[], feeds: Tensors): Promise<Tensors> {
  const values = new Map(feeds);
  const left = new Set(parts);
  while (left.size > 0) {
    const next = [...left].find(({ inputs }) => inputs.every((name) => values.has(name)));
    if (next === undefined) throw new Error("the parts wait for each other");
    left.delete(next);
    const session = await openOnnx(next.bytes);
    const own = new Map([...values].filter(([name]) => next.inputs.includes(name)));
    for (const [name, tensor] of await session.run(own)) values.set(name, tensor);
    await session.release();
  }
  return values;
}

async function largestGap(model: OnnxModel, bytes: Uint8Array, parts: readonly OnnxPart[]) {
  const feeds = feedsOf(model, 3);
  const session = await openOnnx(bytes);
  const want = await session.run(feeds);
  await session.release();
  const got = await runParts(parts, feeds);
  let gap = 0;
  for (const [name, { data, shape }] of want) {
    expect(got.get(name)?.shape).toEqual(shape);
    const most = Math.max(...Array.from(data as Float32Array, Math.abs));
    data.forEach((value: number | bigint, at: number) => {
      gap = Math.max(gap, Math.abs(Number(value) - Number(got.get(name)?.data[at])) / most);
    });
  }
  return gap;
}

describe.each(SAMPLES)("the %s sample", (_, bytes) => {
  const model = read(bytes);

  it("is the file itself where one part runs all of it", async () => {
    const cut = await cutOnnx(model, [[...model.operators.keys()]]);
    expect(cut.kind === "cut" && cut.parts.map((part) => part.bytes === bytes)).toEqual([true]);
    expect(cut).toMatchObject({
      parts: [
        {
          inputs: model.inputs.map(({ name }) => name),
          outputs: model.outputs.map(({ name }) => name),
        },
      ],
    });
  });

  it("gives the whole's answers however its operators are cut in their order", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1 }),
        async (sizes) => {
          const places = model.operators.map((_operator, place) => place);
          const parts: number[][] = [];
          for (let turn = 0; places.length > 0; turn += 1) {
            parts.push(places.splice(0, sizes[turn % sizes.length]));
          }
          const cut = await cutOnnx(model, parts);
          if (cut.kind === "refused") throw new Error(cut.message);
          expect(await largestGap(model, bytes, cut.parts)).toBeLessThanOrEqual(1e-5);
        },
      ),
      { numRuns: caseCount(5) },
    );
  });

  it("becomes a sound graph of operations that hold each operator once", async () => {
    const made = await onnxOperatorGraph(model);
    if (made.kind === "refused") throw new Error(made.message);
    expect(checkOperatorGraph(made.graph, "sample").kind).toBe("checked");
    const places = made.operators.flat().sort((a, b) => a - b);
    expect(places).toEqual(model.operators.map((_operator, place) => place));
    const bytesOfAll = made.graph.parameters.reduce((sum, each) => sum + each.bytes, 0);
    expect(bytesOfAll).toBe(model.parameters.reduce((sum, each) => sum + each.sizeBytes, 0));
  });

  it("has a time for every run that its operators sum to", async () => {
    const traced = await traceOnnx(model, { timedRuns: 3 });
    if (traced.kind === "refused") throw new Error(traced.message);
    const { operatorMs = [], runMs = 0 } = traced.trace;
    expect(operatorMs).toHaveLength(model.operators.length);
    expect(Math.min(...operatorMs)).toBeGreaterThanOrEqual(0);
    expect(operatorMs.reduce((sum, ms) => sum + ms, 0)).toBeCloseTo(runMs, 6);
  });
});

describe("shapes and costs", () => {
  it("are those of the run, with open dimensions as they are bound", async () => {
    const model = read(transformerSample({ blocks: 1, width: 16, heads: 2 }));
    const traced = await traceOnnx(model, {
      bindings: new Map([
        ["batch", 2],
        ["sequence", 5],
      ]),
    });
    if (traced.kind === "refused") throw new Error(traced.message);
    expect(traced.trace.values.get("y")?.shape).toEqual([2, 5, 16]);
    const softmax = model.operators.find(({ op }) => op === "Softmax");
    expect(traced.trace.values.get(softmax?.outputs[0] ?? "")?.shape).toEqual([2, 2, 5, 5]);
  });

  it("count products exactly", async () => {
    const model = read(transformerSample({ blocks: 1, width: 16, heads: 2 }));
    const bindings = new Map([["sequence", 5]]);
    const made = await onnxOperatorGraph(model, { bindings });
    if (made.kind === "refused") throw new Error(made.message);
    const products = made.graph.operations.filter(({ kind }) => kind.startsWith("MatMul"));
    // Four of 16 × 16, two of 16 × 64 for five positions; scores and mixing over two heads of 8.
    const want = 2 * 5 * (4 * 16 * 16 + 2 * 16 * 64) + 2 * 2 * (2 * 5 * 5 * 8);
    const got = products.reduce((sum, { flops }) => sum + flops, 0);
    expect(got - want).toBeGreaterThanOrEqual(0);
    expect(got).toBeLessThanOrEqual(want * 1.05);
  });

  it("a dimension that no input has is refused by name", async () => {
    const model = read(transformerSample());
    const traced = await traceOnnx(model, { bindings: new Map([["tokens", 4]]) });
    expect(traced).toMatchObject({
      kind: "refused",
      message: "no input has a dimension tokens; the open dimensions are: batch, sequence",
    });
  });
});

describe("a cut that cannot run", () => {
  const model = read(branchySample({ side: 12, width: 4, depth: 1, blocks: 1 }));
  const all = model.operators.map((_operator, place) => place);
  it.each([
    ["leaves an operator out", [all.slice(1)], /operator 0 \(Conv Conv_0\) is in no part/],
    ["has an operator twice", [all, [3]], /operator 3 .* is in part 0 and in part 1/],
    ["names one that is not there", [[...all, 999]], /names operator 999/],
    ["has an empty part", [all, []], /part 1 holds no operator/],
    [
      "has parts that wait for each other",
      [all.filter((place) => place % 2 === 0), all.filter((place) => place % 2 === 1)],
      /waits for a part that waits for it/,
    ],
  ])("%s", async (_, parts, want) => {
    const cut = await cutOnnx(model, parts);
    expect(cut.kind === "refused" ? cut.message : "cut").toMatch(want);
  });
});
