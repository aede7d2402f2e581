/**
 * @file Chooses the tensor and pipeline degrees and the replicas with which an engine serves a language model on given GPUs, within stated TTFT and TPOT.
 *
 * Every pair of degrees that the model and a host allow is judged by the greatest rate that one replica of it keeps (`service-level.ts`). With a stated rate the
 * plan has the fewest GPUs that keep it, without one the greatest rate of all GPUs; equal plans: fewer GPUs for a replica, then fewer stages. A replica
 * lies within one host. When no pair keeps both times even for single requests, the plan is that which misses them least, and says so. The baseline is what is
 * written without a plan: tensor parallelism over all GPUs of a host. Cost: O(pairs × requests × blocks), a second at most for the largest models.
 */

import type { ServiceGoal } from "../../domain/model/engine-names.ts";
import {
  decoderProblem,
  requestProblem,
  type TransformerShape,
} from "../../domain/model/transformer-shape.ts";
import { ENGINE, stageMemory, type ServingMemory } from "./engine-memory.ts";
import { promptTime, tokenMs } from "./engine-time.ts";
import { servedModel, widthProblem } from "./served-model.ts";
import {
  greatestRate,
  isKept,
  serviceLevel,
  type Replica,
  type ServiceLevel,
} from "./service-level.ts";
import { servingGpu, type ServingSite } from "./serving-site.ts";

export interface ServingOrder {
  readonly name: string;
  readonly shape: TransformerShape;
  readonly site: ServingSite;
  readonly goal: ServiceGoal;
  /** Requests a second that are to be answered; absent: as many as can be. */
  readonly ratePerS?: number;
}

/** One pair of degrees. */
export interface ServingSplit {
  /** GPUs that share each block. */
  readonly width: number;
  readonly stages: number;
  /** As many as lie on the site. */
  readonly mostReplicas: number;
  readonly memory: readonly ServingMemory[];
  /** Tokens whose keys and values fit into one replica. */
  readonly tokens: number;
  /** Requests that may decode together: memory and the goal for TPOT allow no more. */
  readonly requests: number;
  /** Of one replica within the goal; 0 when it is missed even by a request alone. */
  readonly ratePerS: number;
  /** Of a request alone. */
  readonly alone: ServiceLevel;
  readonly replica: Replica;
}

export interface ServingPlan {
  readonly name: string;
  readonly goal: ServiceGoal;
  readonly split: ServingSplit;
  readonly replicas: number;
  readonly gpus: number;
  /** Of one card. */
  readonly cardGiB: number;
  /** Within the goal, all replicas together. */
  readonly ratePerS: number;
  /** At the stated rate, else at the greatest; of a request alone where the goal cannot be kept. */
  readonly level: ServiceLevel;
  readonly isKept: boolean;
  /** Greatest rate of the baseline on the same GPUs; absent where it does not fit. */
  readonly baselineRatePerS?: number;
  /** Every pair that fits, widest first. */
  readonly splits: readonly ServingSplit[];
}

export type ServingAnswer =
  | { readonly kind: "planned"; readonly plan: ServingPlan }
  | { readonly kind: "blocked"; readonly message: string };

export function planServing(order: ServingOrder): ServingAnswer {
  const { name, shape, site, goal, ratePerS } = order;
  const wrong = decoderProblem(shape);
  if (wrong !== undefined) return { kind: "blocked", message: `${name}: ${wrong}` };
  const tooLong = requestProblem(shape, goal);
  if (tooLong !== undefined)
    return { kind: "blocked", message: `${name}: ${tooLong.message}; ${tooLong.remedy}` };
  const found = allSplits(order);
  if ("message" in found) return { kind: "blocked", message: found.message };
  const [first] = found.splits;
  if (first === undefined) return { kind: "blocked", message: shortfall(name, site, found.misses) };
  const baseline = baselineOf(found.splits, site);
  const told = {
    name,
    goal,
    cardGiB: site.memoryGiB,
    splits: found.splits,
    ...(baseline !== undefined && { baselineRatePerS: baseline.ratePerS * baseline.mostReplicas }),
  };
  const able = found.splits.filter((split) => split.ratePerS > 0);
  if (able.length === 0) {
    const split = found.splits.reduce((a, b) => (excess(b, goal) < excess(a, goal) ? b : a), first);
    const whole = { split, replicas: split.mostReplicas, level: split.alone, isKept: false };
    return { kind: "planned", plan: { ...told, ...whole, gpus: gpusOf(split), ratePerS: 0 } };
  }
  const chosen = ratePerS === undefined ? fastest(able) : fewest(able, goal, ratePerS);
  const split = chosen?.split ?? fastest(able).split;
  const replicas = chosen?.replicas ?? split.mostReplicas;
  const most = split.ratePerS * replicas;
  const level = serviceLevel(split.replica, goal, (ratePerS ?? most) / replicas);
  return {
    kind: "planned",
    plan: {
      ...told,
      split,
      replicas,
      gpus: split.width * split.stages * replicas,
      ratePerS: most,
      level: level ?? split.alone,
      isKept: chosen !== undefined,
    },
  };
}

interface Miss {
  readonly gpus: number;
  readonly memory: ServingMemory;
  readonly tokens: number;
}

/** Every pair of degrees on this site: those that fit, and those whose memory does not. */
function allSplits({
  name,
  shape,
  site,
  goal,
}: ServingOrder):
  | { readonly splits: readonly ServingSplit[]; readonly misses: readonly Miss[] }
  | { readonly message: string } {
  const largest = Math.max(...site.hostGpus);
  const splits: ServingSplit[] = [];
  const misses: Miss[] = [];
  for (let width = largest; width >= 1; width -= 1) {
    if (widthProblem(shape, width) !== undefined) continue;
    const gpu = servingGpu(site, width);
    const model = servedModel(name, shape, width);
    for (let stages = 1; stages <= Math.min(shape.layers, largest / width); stages += 1) {
      const memory = stageMemory(model, { stages, memoryGiB: gpu.memoryGiB });
      const [tight] = [...memory].sort(
        (a, b) => a.tokens - b.tokens || a.keyValueGiB - b.keyValueGiB,
      );
      if (tight === undefined || tight.tokens < goal.contextTokens) {
        if (tight !== undefined)
          misses.push({ gpus: width * stages, memory: tight, tokens: tight.tokens });
        continue;
      }
      const each = goal.promptTokens + goal.outputTokens;
      const most = Math.max(1, Math.min(ENGINE.mostRequests, Math.floor(tight.tokens / each)));
      // In the middle of its answer.
      const earlier = goal.promptTokens + goal.outputTokens / 2;
      const replica = {
        prompt: promptTime(model, { gpu, stages, tokens: goal.promptTokens }),
        stepMs: Array.from({ length: most }, (_, at) =>
          tokenMs(model, { gpu, stages, requests: at + 1, earlier }),
        ),
      };
      const alone = serviceLevel(replica, goal, 0);
      if (alone === undefined) continue;
      const mostReplicas = site.hostGpus.reduce(
        (sum, gpus) => sum + Math.floor(gpus / (width * stages)),
        0,
      );
      const inTime = replica.stepMs.filter((step) => step <= goal.tpotMs).length;
      splits.push({
        width,
        stages,
        mostReplicas,
        memory,
        tokens: tight.tokens,
        requests: Math.max(1, inTime),
        ratePerS: greatestRate(replica, goal),
        alone,
        replica,
      });
    }
  }
  return { splits, misses };
}

interface Chosen {
  readonly split: ServingSplit;
  readonly replicas: number;
}

const gpusOf = ({ width, stages, mostReplicas }: ServingSplit): number =>
  width * stages * mostReplicas;

/** Fewer GPUs for a replica, then fewer stages. */
const byReplica = (a: ServingSplit, b: ServingSplit): number =>
  a.width * a.stages - b.width * b.stages || a.stages - b.stages;

function fastest(splits: readonly ServingSplit[]): Chosen {
  const rate = ({ ratePerS, mostReplicas }: ServingSplit): number => ratePerS * mostReplicas;
  const [split] = [...splits].sort((a, b) => rate(b) - rate(a) || byReplica(a, b));
  if (split === undefined) throw new Error("there is no split to choose from");
  return { split, replicas: split.mostReplicas };
}

/** Undefined when all GPUs do not keep the rate. */
function fewest(
  splits: readonly ServingSplit[],
  goal: ServiceGoal,
  ratePerS: number,
): Chosen | undefined {
  const able = splits.flatMap((split): Chosen[] => {
    const isEnough = (replicas: number): boolean =>
      isKept(serviceLevel(split.replica, goal, ratePerS / replicas), goal);
    if (!isEnough(split.mostReplicas)) return [];
    let [short, enough] = [0, split.mostReplicas];
    while (enough - short > 1) {
      const middle = Math.floor((short + enough) / 2);
      if (isEnough(middle)) enough = middle;
      else short = middle;
    }
    return [{ split, replicas: enough }];
  });
  const gpus = ({ split, replicas }: Chosen): number => split.width * split.stages * replicas;
  return able.sort((a, b) => gpus(a) - gpus(b) || byReplica(a.split, b.split))[0];
}

/** Tensor parallelism over all GPUs of a host, or as many of them as the model allows. */
const baselineOf = (
  splits: readonly ServingSplit[],
  { hostGpus }: ServingSite,
): ServingSplit | undefined =>
  splits.find(({ stages, width }) => stages === 1 && width <= Math.min(...hostGpus));

/** By how much a request alone misses the goal: the worse of both ratios. */
const excess = ({ alone }: ServingSplit, { ttftMs, tpotMs }: ServiceGoal): number =>
  Math.max(alone.ttftMs / ttftMs, alone.tpotMs / tpotMs);

function shortfall(name: string, site: ServingSite, misses: readonly Miss[]): string {
  const [best] = [...misses].sort((a, b) => b.memory.keyValueGiB - a.memory.keyValueGiB);
  if (best === undefined)
    return `${name} cannot be split over ${Math.max(...site.hostGpus)} GPUs of a host. Name a host with other GPUs.`;
  const { weightsGiB, activationsGiB, reserveGiB } = best.memory;
  const usable = ENGINE.memoryShare * site.memoryGiB;
  const needs = `${weightsGiB.toFixed(1)} GiB of weights, ${activationsGiB.toFixed(1)} of activations and ${reserveGiB.toFixed(1)} reserved`;
  return `${name} does not fit: over ${best.gpus} GPUs each has ${needs}; an engine takes ${usable.toFixed(1)} of ${site.memoryGiB} GiB, which leaves keys and values of ${best.tokens} tokens. Name more GPUs of one host, larger ones, or shorter requests.`;
}
