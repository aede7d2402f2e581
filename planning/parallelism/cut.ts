/**
 * @file Cuts a weighted graph into parts of bounded weight with little edge weight between them.
 *
 * A population of cuts: half are annealed on the whole graph, half pass a multilevel cycle (heavy-edge coarsening, annealing on the smallest
 * graph, colder on each larger one). The first is better on graphs without structure, the second on chains and clusters. Then pairs are
 * recombined: where both agree, nodes stay together, and the contracted graph is annealed from the better one; a child replaces the worst.
 * Graphs that are nearly chains or trees, as models' are, pass cycles of segments instead (segment-cycles.ts). The lightest cut is polished.
 * Nodes without weight are joined to their neighbours first (weightless.ts); graphs above `WHOLE_NODES` nodes are coarsened first, and the
 * population lives on the small graph. The plain packing is the first incumbent, so a graph that fits always gets a cut.
 * Source: SpiderFlow §4.2 asks for a capacitated low cut by greedy placement; the method here is our own combination of annealing (Johnson
 * et al. 1989), multilevel cuts (Karypis and Kumar 1998) and recombination by agreement (Sanders and Schulz 2012).
 * Cost: at most `mostSteps` annealing steps (three times as many with cycles), each at most O(degree), and O(edges) for each level of a
 * larger graph. The same input gives the same answer; ties go to the first found.
 */

import type { Random } from "../../lib/random.ts";
import { annealCut, lightness, type Schedule } from "./anneal-cut.ts";
import { boundGroups } from "./bound-groups.ts";
import { chainCut, grownOrder } from "./chain-cut.ts";
import { agreement, coarsened, projected, type Coarse } from "./coarsen.ts";
import { cutWeight, LOAD_EPSILON, loadsOf, type Cut, type CutGraph } from "./cut-graph.ts";
import { descendCut } from "./descend-cut.ts";
import { mendCut } from "./mend-cut.ts";
import { packParts } from "./pack-parts.ts";
import { segmentCycles } from "./segment-cycles.ts";
import { withoutWeightless } from "./weightless.ts";

export interface CutRequest {
  readonly capacities: readonly number[];
  readonly random: Random;
  readonly effort?: Partial<CutEffort>;
}

export interface CutEffort {
  /** Annealing steps of the whole search for each node and edge end of a graph of 1,000 of them; they grow with its root. */
  readonly steps: number;
  /** Steps in all, however large the graph: about 0.1 µs each. Cycles get up to twice as many of their own. */
  readonly mostSteps: number;
  readonly population: number;
  readonly children: number;
}

/** The defaults of a request. */
export const CUT_EFFORT: CutEffort = Object.freeze({
  steps: 2_200,
  mostSteps: 14_000_000,
  population: 6,
  children: 8,
});

export interface CutStats {
  readonly steps: number;
  /** Weight of the plain packing, of the best after the population, and in the end. */
  readonly weights: readonly number[];
}

export type CutAnswer =
  | { readonly kind: "cut"; readonly pick: Cut; readonly stats: CutStats }
  | { readonly kind: "blocked"; readonly message: string };

const WHOLE_NODES = 1_200;
/** Of one annealing, however small the graph. */
const LEAST_STEPS = 6_000;
/** Annealing a multilevel cycle goes down to this many nodes a part. */
const COARSE_NODES_PER_PART = 12;

/** Hot enough to melt any order, cold enough to freeze; in mean edge weights. */
const FROM_NOTHING = { hottest: 2.2, coldest: 0.16 };
const FROM_PARENTS = { hottest: 0.9, coldest: 0.16 };
const FROM_COARSE = { hottest: 0.6, coldest: 0.16 };

const FROM_CHAIN = { hottest: 0.25, coldest: 0.1 };

/** Cycles on a graph that is like a model's get this multiple of the population's steps; they run from this number of nodes and edge ends on. */
const CYCLE_SHARE = 8;
const LEAST_CYCLED_ENDS = 300;

/** Edge ends a node, below which a graph is nearly a chain. */
const SPARSE_DEGREE = 6;
/** Intervals of an order seldom fill parts exactly; their overload is mended. */
const CHAIN_WIDENINGS = [1, 1.05, 1.2];
/** Groups that no cut separates, at most as heavy as this share of the largest part. */
const JOINT_SHARES = [1, 0.5, 0.2];

export function cutGraph(graph: CutGraph, { capacities, random, effort }: CutRequest): CutAnswer {
  const { steps, mostSteps, population, children } = { ...CUT_EFFORT, ...effort };
  const packed = packParts(graph, capacities, random.stream("pack"));
  if (packed.kind === "does not fit") {
    const weight = graph.nodeWeights[packed.node] ?? 0;
    const message =
      `${graph.nodeCount} nodes do not fit into ${capacities.length} parts: node ${packed.node} of weight ${round(weight)} lacks ` +
      `${round(packed.missing)} in every part; allow more slack or take fewer, larger parts`;
    return { kind: "blocked", message };
  }
  const bare = withoutWeightless(graph);
  const small = shrunk(bare?.graph ?? graph, capacities, random.stream("shrink"));
  const budgetOf = ({ nodeCount, neighbours }: CutGraph): number => {
    const ends = nodeCount + neighbours.length;
    return steps * ends * Math.max(1, Math.sqrt(ends / 1000));
  };
  const budget = Math.min(mostSteps, budgetOf(small.graph));
  const search = populationSearch(small.graph, {
    capacities,
    random,
    plan: {
      population,
      children,
      each: Math.max(LEAST_STEPS, Math.ceil(budget / (population + children))),
      cycleSteps: Math.min(
        2 * mostSteps,
        CYCLE_SHARE *
          Math.max(Math.min(budgetOf(graph), 6 * budgetOf(small.graph)), steps * LEAST_CYCLED_ENDS),
      ),
    },
  });
  const found = small.lift(search.best);
  const lifted = bare === undefined || found === undefined ? found : projected(bare, found);
  const start = lifted === undefined ? packed.parts : lifted;
  const parts = descendCut(graph, start, capacities);
  const plain = descendCut(graph, packed.parts, capacities);
  const [weight, plainWeight] = [cutWeight(graph, parts), cutWeight(graph, plain)];
  const pick = weight <= plainWeight ? { parts, weight } : { parts: plain, weight: plainWeight };
  const weights = [cutWeight(graph, packed.parts), search.afterPopulation, pick.weight];
  return { kind: "cut", pick, stats: { steps: search.steps, weights } };
}

interface Searched {
  readonly best: Int32Array | undefined;
  readonly afterPopulation: number;
  readonly steps: number;
}

interface SearchSetting {
  readonly capacities: readonly number[];
  readonly random: Random;
  readonly plan: {
    readonly population: number;
    readonly children: number;
    readonly each: number;
    readonly cycleSteps: number;
  };
}

function populationSearch(graph: CutGraph, { capacities, random, plan }: SearchSetting): Searched {
  const people: Cut[] = [];
  const setting = { capacities, steps: plan.each };
  let steps = 0;
  const take = (parts: Int32Array | undefined): void => {
    steps += plan.each;
    if (parts === undefined) return;
    const polished = descendCut(graph, parts, capacities);
    people.push({ parts: polished, weight: cutWeight(graph, polished) });
    people.sort((a, b) => a.weight - b.weight);
  };
  for (let member = 0; member < plan.population; member += 1) {
    const draw = random.stream(`member-${member}`);
    take(
      member % 2 === 0
        ? fromNothing(graph, { ...setting, random: draw })
        : throughLevels(graph, { ...setting, random: draw }),
    );
  }
  const isModel = isModelLike(graph);
  if (isModel) for (const parts of modelStarts(graph, { ...setting, random })) take(parts);
  people.splice(Math.max(plan.population, 3));
  const afterPopulation = people[0]?.weight ?? Infinity;
  if (isModel) {
    const cycles = { capacities, random: random.stream("cycles"), steps: plan.cycleSteps };
    const [best] = segmentCycles(graph, people, cycles);
    return { best: best?.parts, afterPopulation, steps: steps + plan.cycleSteps };
  }
  const draw = random.stream("pairs");
  for (let child = 0; child < plan.children && people.length > 1; child += 1) {
    const a = people[Math.floor(people.length * draw.unit() * draw.unit())];
    const b = people[draw.below(people.length)];
    if (a === undefined || b === undefined) break;
    const parts =
      a === b
        ? throughLevels(graph, { ...setting, random: random.stream(`child-${child}`) })
        : combined(graph, [a, b], { ...setting, random: random.stream(`child-${child}`) });
    take(parts);
    dropOne(people, plan.population);
  }
  return { best: people[0]?.parts, afterPopulation, steps };
}

/** Twins first, or else the heaviest. */
function dropOne(people: Cut[], most: number): void {
  const twin = people.findIndex((cut, at) => at > 0 && cut.weight === people[at - 1]?.weight);
  if (twin > 0 && people.length > 3) people.splice(twin, 1);
  else if (people.length > most) people.pop();
}

/** Nearly a chain, or with edges of which a few carry most of the weight: as graphs of models are. */
function isModelLike({ nodeCount, neighbours, edgeWeights }: CutGraph): boolean {
  return neighbours.length < SPARSE_DEGREE * nodeCount || lightness(edgeWeights) < 1;
}

/** Cuts that annealing from nothing misses where an order or a few heavy edges decide. */
function modelStarts(graph: CutGraph, setting: Setting): readonly (Int32Array | undefined)[] {
  const { capacities, random } = setting;
  const given = Int32Array.from({ length: graph.nodeCount }, (_, node) => node);
  const found: (Int32Array | undefined)[] = [];
  for (const [at, order] of [given, grownOrder(graph)].entries())
    for (const widening of CHAIN_WIDENINGS) {
      const room = capacities.map((capacity) => capacity * widening);
      const start = chainCut(graph, order, room);
      if (start === undefined) continue;
      if (isHeld(graph, start, capacities)) found.push(start);
      const draw = random.stream(`chain-${at}-${widening}`);
      found.push(annealed(graph, start, { ...setting, random: draw, span: FROM_CHAIN }));
      if (isHeld(graph, start, capacities)) break;
    }
  for (const mostJoint of JOINT_SHARES) {
    const draw = random.stream(`bound-${mostJoint}`);
    const bound = boundGroups(graph, capacities, { random: draw, mostJoint });
    if (bound === undefined) continue;
    const own = { ...setting, random: draw };
    found.push(projected(bound, bound.parts));
    for (const mixed of [
      annealed(bound.graph, bound.parts, { ...own, span: FROM_NOTHING }),
      throughLevels(bound.graph, own),
    ]) {
      if (mixed === undefined) continue;
      const start: Int32Array = projected(bound, mixed);
      found.push(start, annealed(graph, start, { ...own, span: FROM_CHAIN }));
    }
  }
  return found;
}

interface Setting {
  readonly capacities: readonly number[];
  readonly steps: number;
  readonly random: Random;
}

function fromNothing(graph: CutGraph, setting: Setting): Int32Array | undefined {
  const start = scattered(graph, setting);
  return annealed(graph, start, { ...setting, span: FROM_NOTHING });
}

/** Coarsens, anneals the smallest graph from nothing, and each larger one from the cut of the smaller one. */
function throughLevels(graph: CutGraph, setting: Setting): Int32Array | undefined {
  const levels = levelsOf(graph, setting);
  const share = 1 / (levels.length + 1);
  const steps = Math.ceil(setting.steps * share);
  let smallest = levels.at(-1)?.graph ?? graph;
  let parts = annealed(smallest, scattered(smallest, setting), {
    ...setting,
    steps,
    span: FROM_NOTHING,
    isAnyEnd: levels.length > 0,
  });
  for (let level = levels.length - 1; level >= 0 && parts !== undefined; level -= 1) {
    const coarse = levels[level];
    if (coarse === undefined) break;
    smallest = levels[level - 1]?.graph ?? graph;
    parts = annealed(smallest, projected(coarse, parts), {
      ...setting,
      steps,
      span: FROM_COARSE,
      isAnyEnd: level > 0,
    });
  }
  return parts;
}

function levelsOf(graph: CutGraph, { capacities, random }: Setting): Coarse[] {
  const least = COARSE_NODES_PER_PART * capacities.length;
  const total = graph.nodeWeights.reduce((sum, weight) => sum + weight, 0);
  const heaviest = Math.min(total / least, Math.min(...capacities) / 2) * 1.5;
  const levels: Coarse[] = [];
  for (let above = graph; above.nodeCount > least;) {
    const next = coarsened(above, heaviest, random);
    if (next.graph.nodeCount > 0.9 * above.nodeCount) break;
    levels.push(next);
    above = next.graph;
  }
  return levels;
}

function combined(
  graph: CutGraph,
  [a, b]: readonly [Cut, Cut],
  setting: Setting,
): Int32Array | undefined {
  const better = a.weight <= b.weight ? a : b;
  const coarse = agreement(graph, a.parts, b.parts);
  const start = new Int32Array(coarse.graph.nodeCount);
  for (const [node, group] of coarse.groups.entries()) start[group] = better.parts[node] ?? 0;
  const half = { ...setting, steps: Math.ceil(setting.steps / 2) };
  const mixed =
    annealed(coarse.graph, start, { ...half, span: FROM_PARENTS, isAnyEnd: true }) ?? start;
  return annealed(graph, projected(coarse, mixed), { ...half, span: FROM_COARSE });
}

interface AnnealOptions extends Setting {
  readonly span: Omit<Schedule, "steps">;
  /** An overloaded end will do, because a larger graph follows on which it can be mended. */
  readonly isAnyEnd?: boolean;
}

function annealed(
  graph: CutGraph,
  start: Int32Array,
  { capacities, steps, random, span, isAnyEnd = false }: AnnealOptions,
): Int32Array | undefined {
  const { best, last } = annealCut(graph, start, {
    capacities,
    schedule: { ...span, steps },
    random,
  });
  if (best !== undefined || isAnyEnd) return best ?? last;
  return graph.nodeCount <= WHOLE_NODES ? mendCut(graph, last, capacities) : undefined;
}

/** Each node in a random part, weighted by the size of the parts. */
function scattered(graph: CutGraph, { capacities, random }: Setting): Int32Array {
  const total = capacities.reduce((sum, capacity) => sum + capacity, 0);
  return Int32Array.from({ length: graph.nodeCount }, () => {
    let left = random.unit() * total;
    const part = capacities.findIndex((capacity) => (left -= capacity) < 0);
    return Math.max(0, part);
  });
}

interface Shrunk {
  readonly graph: CutGraph;
  readonly lift: (parts: Int32Array | undefined) => Int32Array | undefined;
}

/** At most about `WHOLE_NODES` nodes; the cut is mended on every level on the way up. */
function shrunk(graph: CutGraph, capacities: readonly number[], random: Random): Shrunk {
  const levels: Coarse[] = [];
  let above = graph;
  const heaviest = Math.min(...capacities) / COARSE_NODES_PER_PART;
  while (above.nodeCount > WHOLE_NODES) {
    const next = coarsened(above, heaviest, random);
    if (next.graph.nodeCount > 0.95 * above.nodeCount) break;
    levels.push(next);
    above = next.graph;
  }
  return {
    graph: above,
    lift: (found) => {
      let parts = found;
      for (let level = levels.length - 1; level >= 0 && parts !== undefined; level -= 1) {
        const coarse = levels[level];
        const larger = levels[level - 1]?.graph ?? graph;
        if (coarse === undefined) break;
        const start: Int32Array = projected(coarse, parts);
        const steps = 60 * larger.nodeCount;
        const setting = { capacities, steps, random, span: { hottest: 0.25, coldest: 0.12 } };
        parts =
          annealed(larger, start, setting) ??
          (isHeld(larger, start, capacities) ? start : undefined);
      }
      return parts;
    },
  };
}

const isHeld = (graph: CutGraph, parts: Int32Array, capacities: readonly number[]): boolean =>
  loadsOf(graph, parts, capacities.length).every(
    (load, part) => load <= (capacities[part] ?? 0) * (1 + LOAD_EPSILON),
  );

const round = (value: number): number => Number(value.toPrecision(4));
