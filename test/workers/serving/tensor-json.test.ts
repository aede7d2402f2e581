/** @file Tensors of requests: what an input takes, and what it is told of the rest. */

import { expect, it } from "vitest";
import type { SessionPort } from "../../../models/onnx/onnx-session.ts";
import { readTensor } from "../../../workers/serving/tensor-json.ts";

const PORT: SessionPort = { name: "x", type: "float32", shape: ["n", "m"] };

it.each([
  ["no rows", { shape: [0, 3], data: [] }, "read"],
  ["an axis that no tensor has", { shape: [0, 2 ** 31], data: [] }, /up to 2147483647/],
  ["an axis without end", { shape: [1e308, 0], data: [] }, /up to 2147483647/],
  ["the largest number of its type", { shape: [1, 1], data: [3.4028234e38] }, "read"],
  ["a number beyond its type", { shape: [1, 1], data: [-3.5e38] }, /-3.5e\+38 at 0 is not a FP32/],
])("a tensor of %s", (_, entry, want) => {
  const got = readTensor(PORT, entry);
  expect(got.kind === "read" ? got.kind : got.message).toEqual(
    typeof want === "string" ? want : expect.stringMatching(want),
  );
});
