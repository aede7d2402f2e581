/** @file Parts of a cut model are timed one by one, on what the parts before them made; bad cuts are refused. */

import { describe, expect, it } from "vitest";
import type { TensorValue } from "../../../models/onnx/onnx-session.ts";
import { readOnnxModel, type OnnxModel } from "../../../models/onnx/onnx-model.ts";
import { branchySample } from "../../../models/onnx/onnx-samples.ts";
import { trialFeeds } from "../../../models/onnx/onnx-feeds.ts";
import { partTimes } from "../../../models/onnx/part-times.ts";

const model = ((): OnnxModel => {
  const bytes = branchySample({ side: 8, blocks: 1, branches: 2, depth: 3, width: 8, seed: 1 });
  const read = readOnnxModel(bytes, "sample");
  if (read.kind === "refused") throw new Error(read.message);
  return read.model;
})();

const inputs = ((): ReadonlyMap<string, TensorValue> => {
  const made = trialFeeds(model, { bindings: new Map(), otherwise: 1, whole: 1 });
  if (made.kind === "refused") throw new Error(made.message);
  return made.feeds.values;
})();

const timing = { inputs, rounds: 3, leastMs: 0, budgetMs: 1_000 };
const places = [...model.operators.keys()];

describe("times of parts", () => {
  it("are those of each part, and of the whole beside them", async () => {
    const middle = places.length >> 1;
    const timed = await partTimes(model, [places.slice(0, middle), places.slice(middle)], timing);
    if (timed.kind === "refused") throw new Error(timed.message);
    expect(timed.partMs).toHaveLength(2);
    for (const ms of [...timed.partMs, timed.wholeMs]) expect(ms).toBeGreaterThan(0);
  });

  it("are refused for parts that leave an operator out", async () => {
    const timed = await partTimes(model, [places.slice(1)], timing);
    expect(timed).toMatchObject({ kind: "refused", message: expect.any(String) as string });
  });
});
