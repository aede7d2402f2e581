/** @file The ONNX graph of the surrogate against the plain forward pass: same answers, any batch, whole files. */

import { describe, expect, test } from "vitest";
import { randomFrom, type Random } from "../../../lib/random.ts";
import { batchOf } from "../../../models/bandwidth/batch.ts";
import type { Token } from "../../../models/bandwidth/features.ts";
import { simdKernel } from "../../../models/bandwidth/dense-kernel.ts";
import { forwardPass } from "../../../models/bandwidth/forward.ts";
import {
  batchFeeds,
  openSession,
  outputOf,
  vectorFeed,
} from "../../../models/bandwidth/runtime.ts";
import { inferenceGraph } from "../../../models/bandwidth/surrogate-graphs.ts";
import {
  freshParameters,
  parameterCount,
  transformerShape,
} from "../../../models/bandwidth/transformer.ts";

const FEATURES = 5;
const SHAPE = transformerShape(FEATURES);

const tokens = (random: Random, most: number): Token[] =>
  Array.from({ length: 1 + random.below(most) }, () => ({
    features: Array.from({ length: FEATURES }, () => Math.fround(random.normal())),
    count: 1 + random.below(3),
  }));

describe("the Transformer", () => {
  test("has about the paper's 354 KB of parameters", () => {
    const kB = (4 * parameterCount(transformerShape(2))) / 1000;
    expect(kB).toBeGreaterThan(345);
    expect(kB).toBeLessThan(365);
  });

  test("answers the same from onnxruntime and from plain arrays", async () => {
    const random = randomFrom(3, "forward");
    const parameters = freshParameters(SHAPE, random);
    const session = await openSession(inferenceGraph(SHAPE));
    const forward = forwardPass(SHAPE, parameters);
    const fast = forwardPass(SHAPE, parameters, simdKernel());
    for (const size of [1, 7, 40]) {
      const candidates = Array.from({ length: size }, () => tokens(random, 6));
      const answers = outputOf(
        await session.run({
          ...batchFeeds(batchOf(candidates, FEATURES), FEATURES),
          parameters: vectorFeed(parameters),
        }),
        "answers",
      );
      const plain = forward(candidates);
      const vectored = fast(candidates);
      expect(answers.length).toBe(size);
      answers.forEach((answer, index) => {
        expect(Math.abs(answer - (plain[index] ?? NaN))).toBeLessThan(1e-4);
        expect(Math.abs(answer - (vectored[index] ?? NaN))).toBeLessThan(1e-4);
      });
    }
    await session.release();
  });

  test("takes a token that counts three times for three equal tokens", () => {
    const random = randomFrom(4, "forward");
    const forward = forwardPass(SHAPE, freshParameters(SHAPE, random));
    const [a, b] = [tokens(random, 1), tokens(random, 1)].map(([token]) => token?.features ?? []);
    const [merged, single] = forward([
      [
        { features: a ?? [], count: 3 },
        { features: b ?? [], count: 1 },
      ],
      [
        { features: a ?? [], count: 1 },
        { features: b ?? [], count: 1 },
        { features: a ?? [], count: 1 },
        { features: a ?? [], count: 1 },
      ],
    ]);
    expect(merged).toBeCloseTo(single ?? NaN, 5);
  });

  test("answers bit for bit the same whatever else is in the batch", () => {
    const random = randomFrom(5, "forward");
    const forward = forwardPass(SHAPE, freshParameters(SHAPE, random), simdKernel());
    const candidates = Array.from({ length: 20 }, () => tokens(random, 5));
    const together = forward(candidates);
    candidates.forEach((candidate, index) => {
      expect(forward([candidate])[0]).toBe(together[index]);
    });
  });
});
