/** @file Memory as the frameworks' own code says it (data/plan/memory.json, made as data/plan/README.md says), and as the planner predicts it. */

import { readFileSync } from "node:fs";
import { z } from "zod";
import { MODEL_PRESETS } from "../../../domain/model/model-presets.ts";
import { readHfConfig } from "../../../domain/model/parse-hf-config.ts";
import { DEEPSPEED, FSDP2, MEGATRON_CORE } from "../../../planning/parallelism/framework.ts";
import { layerSums, type Split } from "../../../planning/parallelism/split.ts";
import type { MemoryParts } from "../../../planning/parallelism/memory-parts.ts";
import { stageMemory } from "../../../planning/parallelism/stage-memory.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import type { TransformerShape } from "../../../domain/model/transformer-shape.ts";

const model = z.string();
const count = z.number().int().positive();

const FILE = z.strictObject({
  fsdp2: z.array(
    z.strictObject({
      model,
      ...{ layers: count, sequence: count, microBatch: count, gpus: count, bytes: count },
      isRecomputing: z.boolean(),
    }),
  ),
  deepspeed: z.array(
    z.strictObject({
      model,
      gpus: count,
      shards: z.enum(["gradients", "parameters"]),
      bytes: count,
    }),
  ),
  megatron: z.array(
    z.strictObject({
      model,
      ...{ width: count, stages: count, replicas: count, microBatch: count, microBatches: count },
      stateBytes: count,
      activationBytes: count.optional(),
    }),
  ),
  megatronCore: z.strictObject({
    configs: z.record(z.string(), z.record(z.string(), z.unknown())),
    stages: z.array(
      z.strictObject({
        model,
        ...{ layers: count, sequence: count, samples: count, width: count },
        ...{ first: z.boolean(), last: z.boolean(), keptBytes: count, peakBytes: count },
      }),
    ),
  }),
});

export interface MemoryPair {
  readonly name: string;
  /** Predicted ÷ theirs. */
  readonly ratio: number;
}

const shapeOf = (name: string): TransformerShape => {
  const shape = MODEL_PRESETS.get(name);
  if (shape === undefined) throw new RangeError(`no ${name}`);
  return shape;
};

const GIB = 2 ** 30;
const stateBytes = (parts: MemoryParts): number =>
  GIB * (parts.weightsGiB + parts.gradientsGiB + parts.optimizerGiB);

const splitOf = (of: Partial<Split>): Split => ({
  ...{ replicas: 1, stages: 1, width: 1, microBatch: 1, microBatches: 1 },
  ...{ isRecomputing: false, isSharded: true, bounds: [], cells: [] },
  ...of,
});

const text = readFileSync(new URL("../../../data/plan/memory.json", import.meta.url), "utf8");
const references = FILE.parse(JSON.parse(text));

function configuredShape(name: string): TransformerShape {
  const read = readHfConfig(references.megatronCore.configs[name] ?? {});
  if (read.kind === "wrong") throw new RangeError(JSON.stringify(read.problems));
  return read.shape;
}

export interface StagePair {
  readonly name: string;
  /** What is kept, and the most at any moment: predicted ÷ that of Megatron-Core's own modules. */
  readonly kept: number;
  readonly peak: number;
}

/** One micro-batch of a stage: what stands before and behind it is a stage of its own. */
export const STAGE_PAIRS: readonly StagePair[] = references.megatronCore.stages.map(
  ({ model: name, layers, sequence, samples, width, first, last, keptBytes, peakBytes }) => {
    const sums = layerSums(presetModel(name, { ...configuredShape(name), sequence }));
    const inner = [...(first ? [] : [1]), ...(last ? [] : [layers + 1])];
    const bounds = [0, ...inner, layers + 2];
    const split = splitOf({ width, microBatch: samples, stages: bounds.length - 1, bounds });
    const { activationsGiB, workingGiB } = stageMemory(split, first ? 0 : 1, sums);
    const place = [first ? "embedding" : "", `${layers} blocks`, last ? "head" : ""];
    return {
      name: `${name}, ${place.filter((part) => part !== "").join(", ")}, TP ${width}`,
      kept: (GIB * activationsGiB) / keptBytes,
      peak: (GIB * (activationsGiB + workingGiB)) / peakBytes,
    };
  },
);

export const MEMORY_PAIRS: readonly MemoryPair[] = [
  ...references.fsdp2.map(({ model: name, gpus, bytes, layers, sequence, ...rest }) => {
    // That model is Llama without its own number of tokens or layers: what it is made of stays.
    const shape = { ...shapeOf(name), layers, sequence };
    const sums = layerSums(presetModel(name, shape), FSDP2);
    const split = splitOf({
      ...rest,
      replicas: gpus,
      shards: "parameters",
      bounds: [0, layers + 2],
    });
    const parts = stageMemory(split, 0, sums);
    const predicted = stateBytes(parts) + GIB * parts.activationsGiB;
    const how = rest.isRecomputing ? "recomputed" : "kept";
    return {
      name: `fsdp2 ${name} ${layers} layers, ${sequence} × ${rest.microBatch} tokens, ${gpus} GPUs, ${how}`,
      ratio: predicted / bytes,
    };
  }),
  ...references.deepspeed.map(({ model: name, gpus, shards, bytes }) => {
    const sums = layerSums(presetModel(name, shapeOf(name)), DEEPSPEED);
    const parts = stageMemory(splitOf({ replicas: gpus, shards }), 0, sums);
    return { name: `deepspeed ${name}, ${shards} of ${gpus}`, ratio: stateBytes(parts) / bytes };
  }),
  ...references.megatron.map(({ model: name, activationBytes, ...plan }) => {
    const shape = shapeOf(name);
    const each = shape.layers / plan.stages;
    const inner = Array.from({ length: plan.stages - 1 }, (_, at) => 1 + (at + 1) * each);
    const split = splitOf({
      ...plan,
      isSharded: plan.replicas > 1,
      bounds: [0, ...inner, shape.layers + 2],
    });
    const parts = stageMemory(split, 0, layerSums(presetModel(name, shape), MEGATRON_CORE));
    const predicted =
      stateBytes(parts) + (activationBytes === undefined ? 0 : GIB * parts.activationsGiB);
    return {
      name: `megatron ${name} DP ${plan.replicas} × PP ${plan.stages} × TP ${plan.width}`,
      ratio: predicted / (plan.stateBytes + (activationBytes ?? 0)),
    };
  }),
];
