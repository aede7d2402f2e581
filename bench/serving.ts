/** @file `bench serving`: an ONNX model cut over lanes beside one session of onnxruntime, with one thread and with several. */

import { size, type Bench } from "./bench.ts";

const SERVING_PARTS = ["speed", "expected"];

export const servingBench: Bench = {
  name: "serving",
  summary: "a split ONNX model beside one session of onnxruntime",
  description:
    "Plans a model over lanes (threads that stand for GPUs), checks its answers\n" +
    "against the whole model's, and runs the split model and one session of\n" +
    "onnxruntime in turn: with one thread, with as many as lanes (which look for\n" +
    "work, or sleep at once), and with as many operators at once. Medians after a\n" +
    "warm-up, requests in a row and some time apart. Then four models over one to\n" +
    "three lanes: what the planner expected against what they took, both beside the\n" +
    "whole model in one session in the same moments. Needs as many idle cores as\n" +
    "lanes: how much of a core one thread got is in the answer.",
  options: [
    {
      kind: "choice",
      name: "only",
      choices: SERVING_PARTS,
      what: "measure only the model beside its rivals, or only what was expected of all",
    },
    {
      kind: "text",
      name: "model",
      value: "file",
      what: "another .onnx file (open dimensions are 1)",
    },
    size("lanes", 2, 2, "lanes, and threads of the rival"),
    size("rounds", 30, 3, "runs of each that are timed"),
    size("warm-ups", 30, 0, "runs of each way before, when it is opened"),
    size("side", 12, 8, "of the branchy sample: side of the image"),
    size("blocks", 1, 1, "of the branchy sample: blocks of four branches"),
    size("depth", 200, 1, "of the branchy sample: convolutions in a row in each branch"),
    size("width", 12, 1, "of the branchy sample: channels of each branch"),
  ],
  examples: [
    ["orbweaver bench serving", "the branchy sample over two lanes"],
    ["orbweaver bench serving --model resnet.onnx --json", "a model of your own"],
    ["orbweaver bench serving --only speed --depth 40", "shorter branches, beside the rivals"],
  ],
  run: async (request) => (await import("./serving/run.ts")).runServing(request),
};
