/** @file How a model is split over GPUs, and the sums over its layers that any stage is made of. */

import { MEGATRON_CORE, type Framework, type Shards } from "./framework.ts";
import type { PlanModel } from "./models.ts";
import { keyValueBytes } from "./transformer-layers.ts";
import type { Unit } from "./site.ts";

/** How a model is split. Cell (stage, replica) is at `cells[stage × replicas + replica]`. */
export interface Split {
  readonly replicas: number;
  readonly stages: number;
  readonly width: number;
  /** Replicas in a row that share out the experts of each layer (expert parallelism, inside the replicas); 1 where absent. */
  readonly experts?: number;
  /**
   * Replicas in a row that share out the tokens of each sequence (context parallelism); 1 where absent. Such a group works on one micro-batch, and each of it keeps
   * all parameters of its stage.
   */
  readonly contexts?: number;
  /**
   * Runs of layers of each stage (interleaved 1F1B, "virtual stages"); 1 where absent. A micro-batch passes the stages once for each: run r of stage j is number
   * r × stages + j of all, and `bounds` has the first layer of each of these.
   */
  readonly runs?: number;
  /** Samples. */
  readonly microBatch: number;
  readonly microBatches: number;
  /** Activations are computed again in backward instead of kept. */
  readonly isRecomputing: boolean;
  /** Of attention's scores alone: what they are made of is kept instead. */
  readonly isRecomputingScores?: boolean;
  /** Optimiser state is shared out over the replicas. */
  readonly isSharded: boolean;
  /** What else is. */
  readonly shards?: Shards;
  /** First layer of each stage, or of each of their runs, and the count of layers at the end. */
  readonly bounds: readonly number[];
  readonly cells: readonly Unit[];
}

export interface LayerSums {
  readonly parameters: Float64Array;
  readonly flops: Float64Array;
  readonly activations: Float64Array;
  readonly outputs: Float64Array;
  readonly syncBytes: Float64Array;
  readonly wholeParameters: Float64Array;
  /** Parameters of experts, what samples send to them one way, and layers that have some. */
  readonly expertParameters: Float64Array;
  readonly expertBytes: Float64Array;
  readonly expertLayers: Float64Array;
  /** Keys and values of attention, and layers that have some. */
  readonly keyValueBytes: Float64Array;
  readonly attentionLayers: Float64Array;
  /** As PyTorch's own modules keep them. */
  readonly eager: Float64Array;
  readonly largestEager: number;
  /** Parameters that are gathered at once: of the largest layer that is neither first nor last, of the largest matrix, of the first and the last layer. */
  readonly largestBlock: number;
  readonly largestMatrix: number;
  readonly firstParameters: number;
  readonly lastParameters: number;
  /** Of attention that is not fused; else 0. */
  readonly scores: Float64Array;
  readonly scoreFlops: Float64Array;
  /** Of the layer with most, the last one aside. */
  readonly largestActivation: number;
  /** Beside what is kept: of the layer with most, the last one aside, and of that one. */
  readonly largestWorking: number;
  readonly largestProduct: number;
  readonly lastWorking: number;
  /** Rows and width of the embedding; 0 where the model is no transformer. */
  readonly vocabulary: number;
  readonly hidden: number;
  /** Parameters of the first layer that the last one shares. */
  readonly tiedParameters: number;
  readonly framework: Framework;
}

/** Sums over the first layers, so that any stage costs one subtraction. */
export function layerSums(
  { layers, tiedParameters = 0, shape }: PlanModel,
  framework: Framework = MEGATRON_CORE,
): LayerSums {
  const sums = (of: (layer: PlanModel["layers"][number]) => number): Float64Array => {
    const total = new Float64Array(layers.length + 1);
    for (const [at, layer] of layers.entries()) total[at + 1] = (total[at] ?? 0) + of(layer);
    return total;
  };
  const inner = layers.slice(1, -1);
  const keyValues = shape === undefined ? 0 : keyValueBytes(shape);
  const ofBlocks = (each: number): Float64Array => {
    let at = -1;
    return sums(() => {
      at += 1;
      return at > 0 && at + 1 < layers.length ? each : 0;
    });
  };
  const eagerOf = (layer: PlanModel["layers"][number]): number =>
    layer.eagerBytes ?? layer.activationBytes;
  return {
    eager: sums(eagerOf),
    largestEager: Math.max(0, ...inner.map(eagerOf)),
    largestBlock: Math.max(0, ...inner.map(({ parameters }) => parameters)),
    largestMatrix: Math.max(
      ...layers.map(({ largestMatrix, parameters }) => largestMatrix ?? parameters),
    ),
    firstParameters: layers[0]?.parameters ?? 0,
    lastParameters: layers.length > 1 ? (layers.at(-1)?.parameters ?? 0) : 0,
    parameters: sums(({ parameters }) => parameters),
    flops: sums(({ forwardFlops }) => forwardFlops),
    activations: sums(({ activationBytes }) => activationBytes),
    outputs: sums(({ outputBytes }) => outputBytes),
    syncBytes: sums(({ tensorSyncs, outputBytes }) => tensorSyncs * outputBytes),
    wholeParameters: sums(({ wholeParameters = 0 }) => wholeParameters),
    expertParameters: sums(({ expertParameters = 0 }) => expertParameters),
    expertBytes: sums(({ expertBytes = 0 }) => expertBytes),
    keyValueBytes: ofBlocks(keyValues),
    attentionLayers: ofBlocks(shape === undefined ? 0 : 1),
    expertLayers: sums(({ expertBytes = 0 }) => (expertBytes > 0 ? 1 : 0)),
    scores: sums(({ scoreBytes = 0 }) => (framework.hasFusedAttention ? 0 : scoreBytes)),
    scoreFlops: sums(({ scoreFlops = 0 }) => scoreFlops),
    largestActivation: Math.max(
      0,
      ...layers
        .slice(0, -1)
        .map(
          ({ activationBytes, scoreBytes = 0 }) =>
            activationBytes + (framework.hasFusedAttention ? 0 : scoreBytes),
        ),
    ),
    largestWorking: Math.max(0, ...layers.slice(0, -1).map(({ workingBytes = 0 }) => workingBytes)),
    largestProduct: Math.max(0, ...layers.slice(0, -1).map(({ productBytes = 0 }) => productBytes)),
    lastWorking: layers.at(-1)?.workingBytes ?? 0,
    vocabulary: shape?.vocabulary ?? 0,
    hidden: shape?.hidden ?? 0,
    tiedParameters,
    framework,
  };
}

export const range = (sums: Float64Array, from: number, to: number): number =>
  (sums[to] ?? 0) - (sums[from] ?? 0);

/** Of a run of all stages; without interleaving a stage is a run. */
export const boundsOf = (split: Pick<Split, "bounds">, run: number): readonly [number, number] => [
  split.bounds[run] ?? 0,
  split.bounds[run + 1] ?? 0,
];

/** Over all stages. */
export const runCount = ({ stages, runs = 1 }: Pick<Split, "stages" | "runs">): number =>
  stages * runs;

/** A figure of each run of a stage, summed. */
export function overRuns(
  split: Pick<Split, "stages" | "runs">,
  stage: number,
  of: (run: number) => number,
): number {
  let sum = 0;
  for (let run = stage; run < runCount(split); run += split.stages) sum += of(run);
  return sum;
}

/** Of a stage whose experts are shared out over replicas: the experts' parameters; 0 where each replica has all. */
export const sharedExperts = (split: Split, stage: number, sums: LayerSums): number =>
  expertDegree(split) === 1
    ? 0
    : overRuns(split, stage, (run) => range(sums.expertParameters, ...boundsOf(split, run)));

export const expertDegree = ({ experts = 1 }: Pick<Split, "experts">): number => experts;

/** Of one block and sample. */
export const blockKeyValues = ({ keyValueBytes: sums }: LayerSums): number => range(sums, 1, 2);

export const contextDegree = ({ contexts = 1 }: Pick<Split, "contexts">): number => contexts;

/** Of a micro-batch, what a unit works on: less than one sample where several share out each sequence. */
export const samplesOf = ({
  microBatch,
  contexts = 1,
}: Pick<Split, "microBatch" | "contexts">): number => microBatch / contexts;

/** A tied embedding is in the last stage as well, where that is another one. */
export function stageParameters(
  split: Pick<Split, "bounds" | "stages" | "runs">,
  stage: number,
  { parameters, tiedParameters }: LayerSums,
): number {
  const own = overRuns(split, stage, (run) => range(parameters, ...boundsOf(split, run)));
  return own + (stage > 0 && stage === split.stages - 1 ? tiedParameters : 0);
}

/** Experts are shared out inside the replicas, so their degree is no factor of the GPUs. */
export const degreesText = ({ replicas, stages, width, experts, contexts, runs }: Split): string =>
  `DP ${replicas / (contexts ?? 1)}${contexts === undefined ? "" : ` × CP ${contexts}`}${experts === undefined ? "" : ` (EP ${experts})`} × PP ${stages}${runs === undefined ? "" : ` (VP ${runs})`} × TP ${width}`;

/** By which measured steps of a plan are known: its degrees and micro-batch. */
export const planName = (split: Split): string =>
  `${degreesText(split)}, micro-batch ${String(split.microBatch)}`;
