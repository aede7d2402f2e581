/**
 * @file The key `serve` of `job.yaml`: how an ONNX model without a command is served, or which times an engine for language models is to keep.
 *
 * Which keys belong to which of the two is said by `job-rules.ts` and `job-engine.ts`.
 */

import { z } from "zod";
import { ENGINES } from "../model/engine-names.ts";
import { choice, duration, wholeNumber } from "../file/schema-leaf.ts";

const MOST_TOKENS = 10_000_000;
const MOST_REPLICAS = 1_000;

/** Of a service, `orbweaver serve replicas FILE`, which submits each replica as a job without them. */
export const REPLICA_KEYS = {
  min: wholeNumber({
    min: 0,
    max: MOST_REPLICAS,
    description:
      "Fewest replicas of a service (orbweaver serve replicas). Default: 1, or 0 with scaleToZero.",
    examples: [1],
  }).optional(),
  max: wholeNumber({
    min: 1,
    max: MOST_REPLICAS,
    description: "Most replicas of a service. Default: the larger of min and 1.",
    examples: [4],
  }).optional(),
  scaleToZero: duration({
    description:
      "A service without requests for so long gives all its GPUs back; the next request brings it up again, waits and is answered.",
    examples: ["30s"],
  }).optional(),
};

export const serve = z
  .strictObject({
    port: wholeNumber({
      min: 1,
      max: 65_535,
      description: "Port of the service on its host. Default: a free one, which `status` names.",
      examples: [8000],
    }).optional(),
    maxBatch: wholeNumber({
      min: 1,
      max: 65_536,
      description: "Rows that may run together; 1 for none. Default: 8.",
      examples: [8],
    }).optional(),
    batchWindow: duration({
      description: "How long a request waits for others to run with. Default: 2ms.",
      examples: ["2ms"],
      isZeroAllowed: true,
    }).optional(),
    queue: wholeNumber({
      min: 1,
      max: 1_000_000,
      description: "Requests in line; more are answered with 429. Default: 64.",
      examples: [64],
    }).optional(),
    engine: choice(ENGINES, {
      description:
        "The engine that run.command starts: Orbweaver plans how it splits the model over the GPUs of each lease, and writes its arguments into ORBWEAVER_ENGINE_ARGS. The other keys below go with it.",
    }).optional(),
    ttft: duration({
      description: "Longest time to the first token of 99 requests in 100.",
      examples: ["500ms"],
    }).optional(),
    tpot: duration({
      description: "Longest time for each further token of 99 requests in 100.",
      examples: ["40ms"],
    }).optional(),
    prompt: wholeNumber({
      min: 1,
      max: MOST_TOKENS,
      description: "Tokens of a usual prompt. Default: 1024.",
      examples: [1024],
    }).optional(),
    output: wholeNumber({
      min: 1,
      max: MOST_TOKENS,
      description: "Tokens of a usual answer. Default: 256.",
      examples: [256],
    }).optional(),
    context: wholeNumber({
      min: 2,
      max: MOST_TOKENS,
      description:
        "Tokens of the longest request with its answer; longer ones are refused by the engine. Default: what the model's shape says, at least prompt and output.",
      examples: [8192],
    }).optional(),
    ...REPLICA_KEYS,
  })
  .meta({
    description:
      "How the ONNX model of an inference job without a command is served: over HTTP, one thread for each GPU. Or which times an engine such as vLLM is to keep: engine, ttft, tpot.",
    examples: [
      { port: 8000, maxBatch: 8 },
      { engine: "vllm", ttft: "500ms", tpot: "40ms" },
    ],
  });
