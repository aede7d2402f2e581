/** @file What the bench of cold requests takes for an equal answer. */

import { describe, expect, it } from "vitest";
import { answerGap, inferBody, inferredData } from "../../bench/serving/cold-request.ts";

describe("an answer", () => {
  it("is read from the first output", () => {
    expect(inferredData('{"outputs":[{"name":"y","data":[1,-2]}]}')).toEqual([1, -2]);
    expect(inferredData('{"error":"no"}')).toEqual([]);
  });

  it.each([
    { want: [2, -4], got: [2, -4], gap: 0 },
    { want: [2, -4], got: [3, -4], gap: 0.25 },
    { want: [2, -4], got: [2], gap: Infinity },
    { want: [], got: [], gap: Infinity },
    { want: [2, -4], got: [2, NaN], gap: NaN },
  ])("$got instead of $want is off by $gap", ({ want, got, gap }) => {
    expect(answerGap(want, got)).toBe(gap);
  });
});

it("a body has the tensor's name, shape and numbers", () => {
  expect(JSON.parse(inferBody({ name: "x", shape: [1, 2], data: [1, 2] }))).toEqual({
    inputs: [{ name: "x", shape: [1, 2], datatype: "FP32", data: [1, 2] }],
  });
});
