/**
 * @file Explains why no parallelism plan fits, and which larger cards, or how many more of these, would make one fit.
 *
 * The thriftiest plan keeps one sample at a time, recomputes activations, and has a stage for each GPU (or as many as there are layers), or
 * fewer stages, of replicas that share out the experts or the tokens of a sequence. The
 * memory of its largest stage is the size of card that would suffice; more GPUs of the largest card here are tried up to one for each layer.
 */

import { contextDegrees } from "./candidates.ts";
import { isReplicasAlone } from "./framework.ts";
import type { PlanModel } from "./models.ts";
import type { PlanSite } from "./site.ts";
import type { LayerSums, Split } from "./split.ts";
import { stageBounds } from "./stage-bounds.ts";
import { sharedMemory } from "./sharded-memory.ts";
import { memoryGiB } from "./memory-parts.ts";
import { memoryModes, stageMemory } from "./stage-memory.ts";

export interface Asked {
  readonly model: PlanModel;
  readonly site: PlanSite;
  readonly batch: number;
  readonly sums: LayerSums;
}

export function shortfall({ model, site, batch, sums }: Asked): string {
  const gpus = site.hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const largest = Math.max(...site.hosts.map(({ memoryGiB: card }) => card));
  const isAlone = isReplicasAlone(sums.framework);
  const needed = (count: number): number =>
    isAlone ? replicaGiB(count, model, sums) : thriftiestGiB(count, model, sums);
  const card = needed(gpus);
  const parameters = (sums.parameters.at(-1) ?? 0) / 1e9;
  const subject = `${model.name} (${parameters.toFixed(2)} billion parameters) on ${gpus} ${gpus === 1 ? "GPU" : "GPUs"} of up to ${largest} GiB`;
  if (card <= largest)
    return (
      `${subject}: no split of ${gpus} GPUs goes with a batch of ${batch}${isAlone ? ", which all of them share" : ` and ${model.layers.length} layers`}; ` +
      `take a batch that ${gpus} divides, or let GPUs stay idle: --least, or gang.min of a job`
    );
  let enough: number | undefined;
  const most = isAlone ? MOST_REPLICAS : model.layers.length;
  for (let count = gpus + 1; count <= most && enough === undefined; count += 1)
    if (needed(count) <= largest) enough = count;
  const more =
    enough === undefined
      ? "no number of these GPUs would do, since a single layer with one sample is larger"
      : `take ${enough} of these GPUs`;
  return (
    `${subject}: even with one sample at a time and activations computed again a GPU needs ${card.toFixed(1)} GiB; ` +
    `${more}, or cards of at least ${Math.ceil(card)} GiB`
  );
}

const MOST_REPLICAS = 4096;

/** Memory of a GPU when each holds a replica, with everything shared out that can be. */
const replicaGiB = (replicas: number, model: PlanModel, sums: LayerSums): number =>
  Math.min(
    ...memoryModes(sums.framework, replicas).flatMap((mode) =>
      contextsOver(replicas, model, sums).map((contexts) =>
        memoryGiB(sharedMemory({ ...mode, replicas, contexts, microBatch: 1 }, sums)),
      ),
    ),
  );

/** Those that go with so many GPUs. */
const contextsOver = (gpus: number, model: PlanModel, sums: LayerSums): readonly number[] =>
  contextDegrees(model, sums.framework, 1).filter((degree) => degree <= gpus);

/** Memory of a GPU when each holds a stage, or each so many a stage whose experts, or whose tokens, they share out. */
function thriftiestGiB(count: number, model: PlanModel, sums: LayerSums): number {
  const all = model.shape?.experts?.count ?? 1;
  let least = Infinity;
  for (let experts = 1; experts <= Math.min(all, count); experts *= 2) {
    if (all % experts !== 0) continue;
    for (const contexts of contextsOver(count, model, sums)) {
      const replicas = Math.max(experts, contexts);
      if (replicas % experts !== 0 || replicas % contexts !== 0) continue;
      const stages = Math.min(Math.floor(count / replicas), model.layers.length);
      least = Math.min(least, neededGiB({ stages, replicas, experts, contexts }, sums));
    }
  }
  return least;
}

/** Memory of the largest stage. */
function neededGiB(
  {
    stages,
    replicas,
    experts,
    contexts,
  }: Required<Pick<Split, "stages" | "replicas" | "experts" | "contexts">>,
  sums: LayerSums,
): number {
  const host = {
    id: "any",
    cluster: "any",
    gpuType: "any",
    gpuCount: stages * replicas,
    memoryGiB: Infinity,
    teraflops: 1,
    inside: { gbs: 1, latencyMs: 0 },
    nvlinkGpus: 1,
  };
  const open = {
    replicas,
    ...(experts > 1 && { experts }),
    ...(contexts > 1 && { contexts }),
    stages,
    width: 1,
    microBatch: 1,
    microBatches: 1,
    isRecomputing: true,
    isSharded: replicas > 1,
    cells: Array.from({ length: stages * replicas }, (_, at) => ({
      host: 0,
      firstRank: at,
      width: 1,
    })),
  };
  const most = (limit: number): number => {
    const site: PlanSite = {
      hosts: [{ ...host, memoryGiB: limit }],
      fabric: () => host.inside,
      between: () => host.inside,
    };
    const bounds = stageBounds(open, site, sums);
    if (bounds === undefined) return Infinity;
    const split: Split = { ...open, bounds };
    return Math.max(
      ...Array.from({ length: stages }, (_, stage) => memoryGiB(stageMemory(split, stage, sums))),
    );
  };
  // Balance by time may need more memory than necessary, so the size of the card is found by bisection.
  let [low, high] = [0, most(Infinity)];
  for (let round = 0; round < 30; round += 1) {
    const middle = (low + high) / 2;
    if (most(middle) < Infinity) high = middle;
    else low = middle;
  }
  return high;
}
