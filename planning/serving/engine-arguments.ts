/**
 * @file A plan as the arguments of an engine: its degrees, and the limits that the predicted memory and times rely on. Each entry is a flag with its value,
 * as vLLM 0.12 and SGLang 0.5 take it.
 * Hosts accept the flags that `domain/model/engine-names.ts` names, and no others.
 */

import { partitionVariable, type EngineChoice } from "../../domain/model/engine-names.ts";
import { ENGINE, stageStarts, type ServingMemory } from "./engine-memory.ts";
import type { ServingPlan } from "./plan-serving.ts";
import type { TransformerShape } from "../../domain/model/transformer-shape.ts";

export function engineArguments(
  engine: EngineChoice,
  { split, replicas, goal, cardGiB }: ServingPlan,
): readonly string[] {
  const { width, stages, requests } = split;
  const { memoryShare, stepTokens } = ENGINE;
  switch (engine) {
    case "vllm":
      return [
        `--tensor-parallel-size ${width}`,
        `--pipeline-parallel-size ${stages}`,
        ...(replicas > 1 ? [`--data-parallel-size ${replicas}`] : []),
        `--max-model-len ${goal.contextTokens}`,
        `--max-num-seqs ${requests}`,
        `--max-num-batched-tokens ${stepTokens}`,
        `--gpu-memory-utilization ${memoryShare}`,
      ];
    case "sglang":
      return [
        `--tp ${width}`,
        `--pp-size ${stages}`,
        ...(replicas > 1 ? [`--dp ${replicas}`] : []),
        `--context-length ${goal.contextTokens}`,
        `--max-running-requests ${requests}`,
        `--chunked-prefill-size ${stepTokens}`,
        `--mem-fraction-static ${staticShare(split.memory, cardGiB)}`,
      ];
  }
}

/** Variables that the arguments go with: blocks are dealt out as was planned where a stage has more of them, since each engine has a rule of its own. */
export function engineEnvironment(
  engine: EngineChoice,
  { split: { stages } }: ServingPlan,
  { layers }: TransformerShape,
): Readonly<Record<string, string>> {
  if (layers % stages === 0) return {};
  const starts = stageStarts(layers, stages);
  const counts = starts.slice(1).map((end, stage) => end - (starts[stage] ?? 0));
  return { [partitionVariable(engine)]: counts.join(",") };
}

/** The share of a card for weights, keys and values, on the stage where it is least; rounded down. */
const staticShare = (memory: readonly ServingMemory[], cardGiB: number): number =>
  Math.floor(
    (1000 * Math.min(...memory.map(({ weightsGiB, keyValueGiB }) => weightsGiB + keyValueGiB))) /
      cardGiB,
  ) / 1000;

/** What the arguments do not do. */
export function engineNotes(
  engine: EngineChoice,
  { replicas }: ServingPlan,
  { experts }: TransformerShape,
): readonly string[] {
  return engine === "vllm" && replicas > 1 && experts !== undefined
    ? [
        "vLLM's replicas of a mixture of experts share the experts and wait for each other in every layer: slower than planned, with less memory.",
      ]
    : [];
}
