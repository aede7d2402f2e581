/** @file `bench serving`: an ONNX model cut over lanes beside one session of onnxruntime, with one thread and with several. */

import { size, type Bench } from "./bench.ts";

/** Those that need no fleet. */
export const EXECUTOR_PARTS: readonly string[] = ["speed", "expected"];
const SERVING_PARTS = [...EXECUTOR_PARTS, "cold", "upsets"];

export const servingBench: Bench = {
  name: "serving",
  summary: "a split ONNX model beside one session of onnxruntime",
  description:
    "Plans a model over lanes (threads that stand for GPUs), checks its answers\n" +
    "against the whole model's, and runs the split model and one session of\n" +
    "onnxruntime alternately: with one thread, with as many as lanes (which look for\n" +
    "work, or sleep at once), and with as many operators at once. Medians after a\n" +
    "warm-up, requests in a row and some time apart. Then four models over one to\n" +
    "three lanes: the planner's expectation against the measured time, both beside the\n" +
    "whole model in one session in the same moments. Needs as many idle cores as\n" +
    "lanes: the answer says how much of a core one thread got. On a fleet of its own,\n" +
    "a service that is asked from cold, beside a plain process that loads the model and\n" +
    "answers; and requests under way while replicas are preempted, moved and given back.",
  options: [
    {
      kind: "choice",
      name: "only",
      choices: SERVING_PARTS,
      what: "measure only the model beside its rivals, the planner's expectations, cold requests, or requests while replicas come and go",
    },
    {
      kind: "text",
      name: "model",
      value: "file",
      what: "another .onnx file (open dimensions become 1)",
    },
    {
      kind: "text",
      name: "address",
      value: "HOST:PORT",
      what: "of cold and upsets: a Temporal server that is there; else one is started",
    },
    size("lanes", "lanes, and threads of the rival", { usual: 2, least: 2 }),
    size("rounds", "timed runs of each way", { usual: 30, least: 3 }),
    size("warm-ups", "runs of each way before these, after it is opened", { usual: 30, least: 0 }),
    size("side", "of the branchy sample: side of the image", { usual: 12, least: 8 }),
    size("blocks", "of the branchy sample: blocks of four branches", { usual: 1 }),
    size("depth", "of the branchy sample: convolutions in a row in each branch", { usual: 200 }),
    size("cold-rounds", "cold requests, each beside a plain process", { usual: 12, least: 1 }),
    size("cold-blocks", "of the cold model: transformer blocks", { usual: 8 }),
    size("cold-width", "of the cold model: width, a multiple of 8", { usual: 512, least: 8 }),
    size("upsets", "preemptions, drains, requeues and scale-downs, in turn", { usual: 50 }),
    size("width", "of the branchy sample: channels of each branch", { usual: 12 }),
  ],
  examples: [
    ["orbweaver bench serving", "the branchy sample over two lanes"],
    ["orbweaver bench serving --model resnet.onnx --json", "a model of your own"],
    ["orbweaver bench serving --only speed --depth 40", "shorter branches, beside the rivals"],
    ["orbweaver bench serving --only cold", "a service from no replica, beside a plain process"],
    ["orbweaver bench serving --only upsets", "50 preemptions, moves and scale-downs under load"],
  ],
  run: async (request) => (await import("./serving/run.ts")).runServing(request),
};
