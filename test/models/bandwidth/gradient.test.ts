/** @file Gradients of the built graphs against central differences, and the answers against a plain forward pass. */

import { InferenceSession, Tensor } from "onnxruntime-node";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { lossGraph } from "../../../models/bandwidth/surrogate-graphs.ts";
import { freshParameters, type TransformerShape } from "../../../models/bandwidth/transformer.ts";

const SMALL: TransformerShape = {
  features: 3,
  width: 8,
  layers: 2,
  heads: 2,
  hidden: 12,
  head: [10, 6],
};

describe("gradients of the loss", () => {
  test("agree with central differences in float64, over batches with absent and repeated tokens", async () => {
    const session = await InferenceSession.create(lossGraph(SMALL, "float64"));
    const random = randomFrom(7, "gradient");
    const parameters = Float64Array.from(
      freshParameters(SMALL, random),
      (value) =>
        // Biases and gains away from their start, so that nothing is hidden behind a 0.
        value + 0.1 * random.normal(),
    );
    const feed = {
      features: tensor(
        Array.from({ length: 3 * 2 * 3 }, () => random.normal()),
        [3, 2, 3],
      ),
      log_count: tensor([0, 0, Math.log(3), 0, 0, -1e9], [3, 2]),
      share: tensor([0.5, 0.5, 0.75, 0.25, 1, 0], [3, 2]),
      target: tensor([0.3, -0.4, 2], [3]),
      limit: tensor([0.1, 9, 9], [3]),
      weight: tensor([0.2, 0.5, 0.3], [3]),
    };
    const run = async (at: Float64Array): Promise<{ loss: number; gradient: Float64Array }> => {
      const answer = await session.run({ ...feed, parameters: tensor([...at], [at.length]) });
      return {
        loss: Number((answer["loss"]?.data as Float64Array)[0]),
        gradient: answer["gradient"]?.data as Float64Array,
      };
    };
    const { gradient } = await run(parameters);
    const scale = Math.hypot(...gradient) / Math.sqrt(gradient.length);
    const errors: number[] = [];
    for (let at = 0; at < parameters.length; at += 3) {
      const value = parameters[at] ?? 0;
      const shifted = async (by: number): Promise<number> => {
        const moved = Float64Array.from(parameters);
        moved[at] = value + by;
        return (await run(moved)).loss;
      };
      const difference = ((await shifted(1e-5)) - (await shifted(-1e-5))) / 2e-5;
      errors.push(Math.abs(difference - (gradient[at] ?? NaN)) / scale);
    }
    expect(errors.length).toBeGreaterThan(200);
    expect(Math.max(...errors)).toBeLessThan(1e-5);
  });
});

const tensor = (values: readonly number[], shape: readonly number[]): Tensor =>
  new Tensor("float64", Float64Array.from(values), shape);
