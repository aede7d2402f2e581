/**
 * @file Why no plan fits, and what would make one fit: larger cards, or more of these.
 *
 * The thriftiest plan keeps one sample at a time, computes activations again, and has a stage for each GPU (or as many as there are layers).
 * What its largest stage needs is the card that would do; more GPUs of the largest card here are tried up to one for each layer.
 */

import type { PlanModel } from "./models.ts";
import type { PlanSite } from "./site.ts";
import { stageBounds } from "./stage-bounds.ts";
import { memoryGiB, stageMemory, type LayerSums, type Split } from "./step-time.ts";

export interface Asked {
  readonly model: PlanModel;
  readonly site: PlanSite;
  readonly batch: number;
  readonly sums: LayerSums;
}

export function shortfall({ model, site, batch, sums }: Asked): string {
  const gpus = site.hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
  const largest = Math.max(...site.hosts.map(({ memoryGiB: card }) => card));
  const card = neededGiB(Math.min(gpus, model.layers.length), sums);
  const parameters = (sums.parameters.at(-1) ?? 0) / 1e9;
  const subject = `${model.name} (${parameters.toFixed(2)} billion parameters) on ${gpus} ${gpus === 1 ? "GPU" : "GPUs"} of up to ${largest} GiB`;
  if (card <= largest)
    return (
      `${subject}: no split of ${gpus} GPUs goes with a batch of ${batch} and ${model.layers.length} layers; ` +
      `take a batch that ${gpus} divides, or as many GPUs as it has divisors`
    );
  let enough: number | undefined;
  for (let count = gpus + 1; count <= model.layers.length && enough === undefined; count += 1)
    if (neededGiB(count, sums) <= largest) enough = count;
  const more =
    enough === undefined
      ? "no number of these GPUs would do, since a single layer is larger"
      : `take ${enough} of these GPUs`;
  return (
    `${subject}: even with one sample at a time and activations computed again a GPU needs ${card.toFixed(1)} GiB; ` +
    `${more}, or cards of at least ${Math.ceil(card)} GiB`
  );
}

/** Of the largest stage when so many GPUs hold a stage each. */
function neededGiB(stages: number, sums: LayerSums): number {
  const host = {
    id: "any",
    cluster: "any",
    gpuType: "any",
    gpuCount: stages,
    memoryGiB: Infinity,
    teraflops: 1,
    inside: { gbs: 1, latencyMs: 0 },
    nvlinkGpus: 1,
  };
  const open = {
    replicas: 1,
    stages,
    width: 1,
    microBatch: 1,
    microBatches: 1,
    isRecomputing: true,
    isSharded: false,
    cells: Array.from({ length: stages }, (_, at) => ({ host: 0, firstRank: at, width: 1 })),
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
  // Balanced for time it may need more than it must: bisect on the card.
  let [low, high] = [0, most(Infinity)];
  for (let round = 0; round < 30; round += 1) {
    const middle = (low + high) / 2;
    if (most(middle) < Infinity) high = middle;
    else low = middle;
  }
  return high;
}
