/**
 * @file DT-FM's way: a genetic search over orders of clusters, each of which fills the gang from its front. A rival.
 *
 * A gene is an order of the clusters that have something free. Parents win tournaments of two; a child keeps a slice of one and the others in the order
 * of the second (order crossover); mutation swaps two. The best order so far stays. It gets the two obvious orders (most free, most bandwidth) to begin with,
 * which is more than the paper's DT-FM had. By `communication` it minimises its own kind of cost, 1 ÷ width summed over all pairs of GPUs in different
 * clusters; by `lexicographic` our objective, which is its best reading and not its own.
 * Ties: the order that was found first. Cost: population · generations · n. Source: Yuan et al. 2022, as SpiderFlow §5.2 uses it.
 */

import { randomFrom, shuffled, type Random } from "../../../lib/random.ts";
import {
  compareScores,
  filled,
  scoreChoice,
  type ChoiceScore,
  type ClusterChoice,
  type ClusterPolicy,
  type ClusterRoom,
  type ClusterDemand,
} from "../../../scheduling/placement/cluster-policy.ts";
import { bottleneckOf, byIncident } from "../../../scheduling/placement/link-graph.ts";

interface GeneticOptions {
  readonly seed: number;
  readonly population: number;
  readonly generations: number;
  /** Of children that are mutated. */
  readonly mutated: number;
  readonly objective: "lexicographic" | "communication";
}

export const DEFAULT_GENETIC: GeneticOptions = Object.freeze({
  seed: 1,
  population: 24,
  generations: 40,
  mutated: 0.3,
  objective: "lexicographic",
});

export const geneticClusters =
  ({ seed, population, generations, mutated, objective }: GeneticOptions): ClusterPolicy =>
  (demand, room) => {
    const { free, links } = room;
    const random = randomFrom(seed, "genetic");
    const open = Array.from(free, (_, cluster) => cluster).filter((at) => (free[at] ?? 0) > 0);
    const byFree = [...open].sort((a, b) => (free[b] ?? 0) - (free[a] ?? 0) || a - b);
    const byBandwidth = [...byIncident(links)].filter((at) => (free[at] ?? 0) > 0);
    const judge = (order: readonly number[]): Gene => {
      const gene = judged(order, demand, room);
      if (objective === "lexicographic" || gene.choice === undefined) return gene;
      return { ...gene, cost: communication(gene.choice, room) };
    };
    let genes = [byFree, byBandwidth].map(judge);
    while (genes.length < population) genes.push(judge(shuffled(open, random)));
    let best = genes.reduce(fitter);
    for (let generation = 0; generation < generations; generation += 1) {
      const children = [best];
      while (children.length < population) {
        const [a, b] = [tournament(genes, random), tournament(genes, random)];
        const child = crossed(a.order, b.order, random);
        if (random.unit() < mutated) swap(child, random);
        children.push(judge(child));
      }
      genes = children;
      best = genes.reduce(fitter);
    }
    const work = population * (generations + 1) * open.length;
    return { ...(best.choice && { choice: best.choice }), work };
  };

interface Gene {
  readonly order: readonly number[];
  readonly choice?: ClusterChoice;
  readonly score?: ChoiceScore;
  /** Goes before the score. */
  readonly cost?: number;
}

function judged(order: readonly number[], demand: ClusterDemand, room: ClusterRoom): Gene {
  const choice = filled(order, demand, room);
  if (choice === undefined) return { order };
  const score = scoreChoice(choice, room);
  return score.bottleneckGbps > 0 ? { order, choice, score } : { order };
}

/** Seconds for a gigabit between each two GPUs of different clusters, summed. */
function communication({ clusters, gpus }: ClusterChoice, { links }: ClusterRoom): number {
  let cost = 0;
  for (const [a, from] of clusters.entries())
    for (const [b, to] of clusters.entries())
      if (a < b) cost += ((gpus[a] ?? 0) * (gpus[b] ?? 0)) / bottleneckOf(links, [from, to]);
  return cost;
}

/** Orders that hold the gang come first; the first of equals wins. */
function fitter(a: Gene, b: Gene): Gene {
  if (a.score === undefined || b.score === undefined) return b.score === undefined ? a : b;
  if (a.cost !== undefined && b.cost !== undefined) return b.cost < a.cost ? b : a;
  return compareScores(b.score, a.score) < 0 ? b : a;
}

function tournament(genes: readonly Gene[], random: Random): Gene {
  const [first, second] = [genes[random.below(genes.length)], genes[random.below(genes.length)]];
  return first === undefined || second === undefined ? { order: [] } : fitter(first, second);
}

function crossed(a: readonly number[], b: readonly number[], random: Random): number[] {
  const [one, other] = [random.below(a.length), random.below(a.length)];
  const kept = a.slice(Math.min(one, other), Math.max(one, other) + 1);
  const rest = b.filter((cluster) => !kept.includes(cluster));
  return [...rest.slice(0, Math.min(one, other)), ...kept, ...rest.slice(Math.min(one, other))];
}

function swap(order: number[], random: Random): void {
  const [one, other] = [random.below(order.length), random.below(order.length)];
  const [a, b] = [order[one], order[other]];
  if (a === undefined || b === undefined) return;
  order[one] = b;
  order[other] = a;
}
