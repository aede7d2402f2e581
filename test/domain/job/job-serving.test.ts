/** @file Inference jobs with an ONNX model and no command: what they become, what they may not say. */

import { describe, expect, it } from "vitest";
import { parseJobFile } from "../../../domain/job/job-file.ts";
import { extrasOf } from "../../../domain/lease/launch-extras.ts";

const SERVED = {
  name: "s",
  class: "inference",
  model: "/models/m.onnx",
  gang: { gpus: 2, min: 1 },
};

const problemsOf = (file: unknown): readonly string[] => {
  const read = parseJobFile(file);
  return read.kind === "refused"
    ? read.problems.map(({ path, message, remedy }) => `${path}: ${message}; ${remedy}`)
    : [];
};

describe("an inference job with an .onnx model and no command", () => {
  it("runs orbweaver serve, once, on one host, with what it says of serving in variables", () => {
    const serve = { port: 9000, maxBatch: 4, batchWindow: "5ms", queue: 10 };
    const read = parseJobFile({ ...SERVED, serve });
    if (read.kind === "refused") throw new Error("refused");
    expect(read.spec).toMatchObject({
      isServed: true,
      constraints: { isSameHost: true },
      run: {
        command: ["orbweaver", "serve"],
        launch: "per-host",
        env: {
          ORBWEAVER_SERVING_PORT: "9000",
          ORBWEAVER_SERVING_MAX_BATCH: "4",
          ORBWEAVER_SERVING_BATCH_WINDOW_MS: "5",
          ORBWEAVER_SERVING_QUEUE: "10",
        },
      },
    });
    expect(extrasOf(read.spec)).toEqual(["inference"]);
  });

  it.each([
    ["with a command", { run: { command: "serve-it" } }],
    ["of another class", { class: "training", run: { command: "train" } }],
    ["with another model", { model: "gpt2-large", run: { command: "serve-it" } }],
  ])("%s is a job like any other", (_, change) => {
    const read = parseJobFile({ ...SERVED, ...change });
    if (read.kind === "refused") throw new Error("refused");
    expect(read.spec.isServed).toBeUndefined();
    expect(read.spec.constraints.isSameHost).toBe(false);
  });

  it.each([
    [
      { array: { count: 2 }, gang: 1 },
      /^array: an ONNX model is served by one process on one host/,
    ],
    [
      { constraints: { sameHost: false } },
      /^constraints\.sameHost: an ONNX model is served by one/,
    ],
    [{ run: { launch: "per-gpu" } }, /^run\.launch: an ONNX model is served by one process/],
    [{ model: "m.onnx" }, /^model: "m\.onnx" is relative, and there is no run\.workdir/],
    [{ serve: { port: 0 } }, /^serve\.port: /],
    [{ run: { command: "x" }, serve: {} }, /^serve: Orbweaver serves only the \.onnx model/],
    [{ class: "training" }, /^run: missing; write a map with the key command/],
    [{ class: "training", run: {} }, /^run\.command: missing/],
  ])("%j is refused", (change, want) => {
    const [problem, ...others] = problemsOf({ ...SERVED, ...change });
    expect(problem).toMatch(want);
    expect(others).toEqual([]);
  });

  it("may name its model by a path from its working folder", () => {
    const file = { ...SERVED, model: "m.onnx", run: { workdir: "/models" } };
    expect(problemsOf(file)).toEqual([]);
  });
});
