/**
 * @file Jobs for the experiments of SpiderFlow §5: arrivals and durations of a trace, GPUs and models from the paper's NewWorkload list.
 *
 * The traces cannot carry these experiments as they are: nearly all of their jobs use one GPU. So a trace gives when jobs come and how long each would run, and
 * the rest is drawn: with the stated share a demand above the largest cluster, up to `furthest`, else one that a cluster holds (powers of two and the cluster
 * itself). Models are drawn evenly among those of the list that fit into the memory of so many GPUs. A job's work is what it would do in its duration on GPUs
 * of one cluster; where those come from costs time. Arrivals are stretched or pressed together until the offered load is as asked:
 * Σ GPUs × duration ÷ (span × GPUs of the fleet). Same seed, same jobs. Cost: O(jobs).
 * Source: SpiderFlow §5.1 (models), §5.6.
 */

import { MODEL_PRESETS } from "../../domain/model/model-presets.ts";
import type { Random } from "../../lib/random.ts";
import { parameterCount, type PlanModel } from "../../planning/parallelism/models.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";

/** Of a trace. */
export interface TraceJob {
  readonly arrivalMs: number;
  readonly durationMs: number;
}

export interface TrainingJob {
  readonly number: number;
  readonly arrivalMs: number;
  /** In one cluster, planned. */
  readonly durationMs: number;
  readonly gpus: number;
  readonly model: PlanModel;
  /** Samples of a step for each GPU. */
  readonly samplesPerGpu: number;
  /** Cluster where it was submitted. */
  readonly home: number;
}

export interface WorkloadShape {
  readonly clusters: number;
  readonly fleetGpus: number;
  readonly largestCluster: number;
  /** Of jobs that ask for more than the largest cluster; 0 where demand is even from 1 to `furthest`. */
  readonly beyondShare: number;
  readonly furthest: number;
  readonly load: number;
  readonly cardGiB: number;
}

const NEW_WORKLOAD = [
  "bert-110m",
  "bert-340m",
  "gpt2-350m",
  "gpt2-1.3b",
  "gpt2-4.2b",
  "opt-6.7b",
  "opt-13b",
] as const;

const SAMPLES_PER_GPU = [4, 8, 16] as const;
/** Weights, gradients and optimiser state of a parameter, in bytes; a third of the card is left for activations. */
const STATE_BYTES = 16;
const STATE_SHARE = 2 / 3;

export function trainingJobs(
  trace: readonly TraceJob[],
  shape: WorkloadShape,
  random: Random,
): readonly TrainingJob[] {
  const models = NEW_WORKLOAD.flatMap((name) => {
    const preset = MODEL_PRESETS.get(name);
    return preset === undefined ? [] : [presetModel(name, preset)];
  });
  const first = trace[0]?.arrivalMs ?? 0;
  const drawn = trace.map(({ arrivalMs, durationMs }, number): TrainingJob => {
    const gpus = demand(shape, random);
    const room = (gpus * shape.cardGiB * 2 ** 30 * STATE_SHARE) / STATE_BYTES;
    const able = models.filter((model) => parameterCount(model) <= room);
    const model = able[random.below(able.length)] ?? models[0];
    if (model === undefined) throw new Error("no preset of the NewWorkload list is known");
    return {
      number,
      arrivalMs: arrivalMs - first,
      durationMs,
      gpus,
      model,
      samplesPerGpu: SAMPLES_PER_GPU[random.below(SAMPLES_PER_GPU.length)] ?? 4,
      home: random.below(shape.clusters),
    };
  });
  const span = Math.max(1, ...drawn.map(({ arrivalMs }) => arrivalMs));
  const work = drawn.reduce((sum, { gpus, durationMs }) => sum + gpus * durationMs, 0);
  const stretch = work / (shape.load * shape.fleetGpus * span);
  return drawn.map((job) => ({ ...job, arrivalMs: job.arrivalMs * stretch }));
}

function demand({ largestCluster, beyondShare, furthest }: WorkloadShape, random: Random): number {
  if (beyondShare === 0) return 1 + random.below(furthest);
  if (random.unit() < beyondShare) {
    // Even numbers, as gangs are: an odd one above the largest cluster divides into no stages.
    const any = largestCluster + 1 + random.below(furthest - largestCluster);
    return any % 2 === 0 || any === furthest ? any : any + 1;
  }
  const powers = 1 + Math.floor(Math.log2(largestCluster));
  const at = random.below(powers + 1);
  return at === powers ? largestCluster : 2 ** at;
}
