/** @file Parts made of a plan's queues: sound, joined where that makes nobody wait, in an order in which they can run. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { OperationNode, OperatorGraph } from "../../../domain/model/operator-graph.ts";
import { partList, retimedMs, type RunCosts } from "../../../models/onnx/part-list.ts";

const operation = (inputs: readonly number[], outputBytes = 0): OperationNode => ({
  id: "",
  kind: "Op",
  inputs,
  parameters: [],
  outputBytes,
  flops: 0,
  movedBytes: 0,
});

const graphOf = (inputs: readonly (readonly number[])[]): OperatorGraph => ({
  name: "g",
  parameters: [],
  operations: inputs.map((each) => operation(each)),
});

/** The queues that take operations in the order of their numbers. */
const queuesOf = (gpuOf: readonly number[], gpus: number) => ({
  gpuQueues: Array.from({ length: gpus }, (_, gpu) => [
    { operations: gpuOf.flatMap((own, at) => (own === gpu ? [at] : [])), isDirect: false },
  ]),
  busQueues: [],
  resident: [],
});

const costsOf = (count: number, partMs: number): RunCosts => ({
  requestMs: 0,
  partMs,
  handMs: 1,
  handMsPerByte: 0,
  besideFactor: 1,
  operationMs: new Array<number>(count).fill(10),
});

describe("parts", () => {
  it("of one GPU are one part", () => {
    const { parts, expectedMs } = partList(
      graphOf([[], [0], [1]]),
      queuesOf([0, 0, 0], 2),
      costsOf(3, 2),
    );
    expect(parts).toEqual([{ gpu: 0, operations: [0, 1, 2] }]);
    expect(expectedMs).toBe(32);
  });

  it("that were timed themselves end when their own times say", () => {
    const graph = graphOf([[], [0], [0], [1, 2]]);
    const costs = { ...costsOf(4, 2), requestMs: 1, besideFactor: 2 };
    const { parts } = partList(graph, queuesOf([0, 0, 1, 0], 2), costs);
    const partMs = parts.map(({ operations }) => 2 + 5 * operations.length);
    // Each operation takes twice its 5 ms; both lanes' ways lead from 0 to 3, the longer by way of 2 with a value each way.
    const wantMs = 1 + (2 + 10) + 1 + (2 + 10) + 1 + (2 + 10);
    expect(retimedMs(graph, parts, { partMs, costs })).toBe(wantMs);
  });

  it("hand a result on before what comes after it, where another GPU waits for it", () => {
    // 0 → 1 → 3 here, 0 → 2 there, 3 joins.
    const { parts, expectedMs } = partList(
      graphOf([[], [0], [0], [1, 2]]),
      queuesOf([0, 0, 1, 0], 2),
      costsOf(4, 0),
    );
    expect(parts.map(({ gpu, operations }) => [gpu, operations])).toEqual([
      [0, [0]],
      [0, [1]],
      [1, [2]],
      [0, [3]],
    ]);
    expect(expectedMs).toBe(32);
  });

  it("are joined where that makes nobody wait", () => {
    // What 2 needs from elsewhere has come when 1 begins.
    const { parts, expectedMs } = partList(
      graphOf([[], [0], [0, 1]]),
      queuesOf([1, 0, 0], 2),
      costsOf(3, 100),
    );
    expect(parts.map(({ operations }) => operations)).toEqual([[0], [1, 2]]);
    expect(expectedMs).toBe(110 + 1 + 120);
  });

  it.each([
    ["on two GPUs, which feel each other", [0, 1], 3 + 15],
    ["on one GPU", [0, 0], 3 + 20],
  ])("take the request's own time beside, %s", (_, gpuOf, wantMs) => {
    const costs = { ...costsOf(2, 0), requestMs: 3, besideFactor: 1.5 };
    expect(partList(graphOf([[], []]), queuesOf(gpuOf, 2), costs).expectedMs).toBe(wantMs);
  });

  it("hold every operation once, in an order in which they can run", () => {
    const graphs = fc
      .array(fc.tuple(fc.nat(), fc.nat(), fc.nat(2)), { minLength: 1, maxLength: 14 })
      .map((rows) => ({
        inputs: rows.map(([a, b], at) =>
          at === 0 ? [] : [...new Set([a % at, b % at])].sort((x, y) => x - y),
        ),
        gpuOf: rows.map(([, , gpu]) => gpu),
      }));
    fc.assert(
      fc.property(graphs, fc.integer({ min: 0, max: 30 }), ({ inputs, gpuOf }, partMs) => {
        const graph = graphOf(inputs);
        const { parts, expectedMs } = partList(
          graph,
          queuesOf(gpuOf, 3),
          costsOf(inputs.length, partMs),
        );
        const done = new Set<number>();
        for (const { gpu, operations } of parts) {
          for (const one of operations) {
            expect(gpuOf[one]).toBe(gpu);
            for (const input of inputs[one] ?? []) {
              expect(done.has(input) || operations.includes(input)).toBe(true);
            }
          }
          for (const one of operations) done.add(one);
        }
        expect(done.size).toBe(inputs.length);
        const most = inputs.length * (10 + partMs + 1);
        expect(expectedMs).toBeLessThanOrEqual(most);
      }),
    );
  });
});
