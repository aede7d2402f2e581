/**
 * @file Improves cuts of graphs that are nearly chains or trees, in cycles: joins nodes to random segments, anneals the segments, and polishes.
 *
 * The best cut of such a graph separates few edges, and the way from a good cut to a better one moves whole runs of nodes: moving one node
 * at a time would have to climb over every heavy edge between. Each cycle takes one of the lightest cuts so far (or none) and joins nodes
 * along edges, heavy ones first but with a random factor on each, until a random number of segments is left, none too heavy and none across
 * two parts of that cut. It anneals the segments, at a drawn price of overload, and then anneals the nodes coldly from there. (KaFFPaE's
 * cycles, Sanders and Schulz 2012, with Kruskal's joins in place of matchings.) A population that has not improved for `ERA` cycles is set
 * aside and another is bred from nothing; the lightest of all meet at the end.
 * Cost: `steps`, in annealing steps; joins and polish are charged in the same unit. Ties go to the cut found first.
 */

import type { Random } from "../../lib/random.ts";
import { annealCut } from "./anneal-cut.ts";
import { projected } from "./coarsen.ts";
import { cutWeight, type Cut, type CutGraph } from "./cut-graph.ts";
import { descendCut } from "./descend-cut.ts";
import { edgesOf, joinedEdges } from "./joined-edges.ts";
import { mendCut } from "./mend-cut.ts";

export interface CycleSetting {
  readonly capacities: readonly number[];
  readonly random: Random;
  readonly steps: number;
}

/** Cuts that are kept; the lightest are taken most often. */
const KEPT = 4;
/** Of the cycles, those that start from no cut. */
const FRESH_SHARE = 0.4;
/** Segments a part: from the first, up to that times the second. */
const SEGMENTS = { fewest: 2, span: 8 };
/** A segment weighs at most from this share of a part up to all of it. */
const LIGHTEST_LIMIT = 0.3;
/** Deviation of the logarithm of an edge's random factor, at most. */
const DISORDER = 1;
/** Annealing steps for each node and edge end, of the segments and of the graph; the cost of joining, in steps. */
const [SEGMENT_STEPS, FINE_STEPS, JOIN_STEPS] = [150, 15, 10];
/** The cost of mending and polishing for each node, in steps. */
const POLISH_STEPS = 30;
/** A cut heavier than the heaviest kept one by more than this is not polished. */
const HOPE = 1.1;
/** The search ends after this number of cycles without a lighter cut: in all, and for each node of a small graph. */
const PATIENCE = { most: 400, perNode: 8 };
/** Another population begins after this number of cycles without a lighter cut; the last share of the steps is for the lightest cuts of all. */
const ERA = 60;
const LAST_SHARE = 0.3;
/** Largest factor on the price of overload for segments: heavy nodes then stay packed while light ones find their places. */
const HIGHEST_PRICE = 6;
const FINE = { hottest: 0.2, coldest: 0.04 };
const HOTTEST = 2.2;
const COLDEST = 0.05;

/** The lightest first; includes those of `starts` that stayed among the best. */
export function segmentCycles(
  graph: CutGraph,
  starts: readonly Cut[],
  { capacities, random, steps }: CycleSetting,
): readonly Cut[] {
  const edges = edgesOf(graph);
  const ends = graph.nodeCount + graph.neighbours.length;
  const kept = [...starts].sort((a, b) => a.weight - b.weight).slice(0, KEPT);
  const sizes = [Math.min(...capacities), Math.max(...capacities)];
  let left = steps;
  let lightest = kept[0]?.weight ?? Infinity;
  let lastGain = 0;
  const elders: Cut[] = [];
  const line = { lightest: Infinity, lastGain: 0 };
  const meetAt = LAST_SHARE * steps;
  const patience = Math.min(PATIENCE.most, PATIENCE.perNode * graph.nodeCount);
  for (let cycle = 1; left > 0 && cycle - lastGain <= patience; cycle += 1) {
    if (elders.length > 0 && left <= meetAt) {
      for (const { parts } of elders.splice(0)) keep(kept, graph, parts);
    } else if (cycle - line.lastGain > ERA && left > meetAt) {
      elders.push(...kept.splice(0));
      [line.lightest, line.lastGain] = [Infinity, cycle];
    }
    const draw = random.stream(`cycle-${cycle}`);
    const isFresh = draw.unit() < FRESH_SHARE || kept.length === 0;
    const base = isFresh ? undefined : kept[Math.floor(kept.length * draw.unit() * draw.unit())];
    const disorder = DISORDER * draw.unit();
    const keys = Float64Array.from(
      edges,
      ({ weight }) => Math.log(weight + Number.MIN_VALUE) + disorder * draw.normal(),
    );
    const order = edges
      .map((_, at) => at)
      .sort((a, b) => (keys[b] ?? 0) - (keys[a] ?? 0) || a - b)
      .flatMap((at) => edges[at] ?? []);
    const segments = joinedEdges(graph, order, {
      most: (sizes[draw.below(2)] ?? 0) * LIGHTEST_LIMIT ** draw.unit(),
      fewest: capacities.length * SEGMENTS.fewest * SEGMENTS.span ** draw.unit(),
      ...(base !== undefined && { within: base.parts }),
    });
    const coarseEnds = segments.graph.nodeCount + segments.graph.neighbours.length;
    const coarseSteps = SEGMENT_STEPS * coarseEnds;
    left -= coarseSteps + (FINE_STEPS + JOIN_STEPS) * ends;
    const start = new Int32Array(segments.graph.nodeCount);
    if (base === undefined) for (const at of start.keys()) start[at] = partAt(capacities, draw);
    else for (const [node, at] of segments.groups.entries()) start[at] = base.parts[node] ?? 0;
    const hottest = base === undefined ? HOTTEST : HOTTEST * 0.1 ** draw.unit();
    const schedule = { hottest, coldest: COLDEST, steps: coarseSteps };
    const coarse = annealCut(segments.graph, start, {
      capacities,
      schedule,
      random: draw,
      priceFactor: HIGHEST_PRICE ** draw.unit(),
    });
    const fine = annealCut(graph, projected(segments, coarse.best ?? coarse.last), {
      capacities,
      schedule: { ...FINE, steps: FINE_STEPS * ends },
      random: draw,
    });
    const weight = fine.best === undefined ? cutWeight(graph, fine.last) : fine.bestWeight;
    if (kept.length === KEPT && weight > HOPE * (kept.at(-1)?.weight ?? 0)) continue;
    left -= POLISH_STEPS * graph.nodeCount;
    const held = fine.best ?? mendCut(graph, fine.last, capacities);
    if (held !== undefined) keep(kept, graph, descendCut(graph, held, capacities));
    const best = kept[0]?.weight ?? Infinity;
    if (best < line.lightest) [line.lightest, line.lastGain] = [best, cycle];
    if (best < lightest) [lightest, lastGain] = [best, cycle];
  }
  for (const { parts } of elders) keep(kept, graph, parts);
  return kept;
}

function keep(kept: Cut[], graph: CutGraph, parts: Int32Array): void {
  const weight = cutWeight(graph, parts);
  // Equal cuts would crowd out different ones.
  if (kept.some((cut) => Math.abs(cut.weight - weight) <= 1e-9 * weight)) return;
  kept.push({ parts, weight });
  kept.sort((a, b) => a.weight - b.weight);
  kept.splice(KEPT);
}

/** Any part, by size. */
function partAt(capacities: readonly number[], random: Random): number {
  let left = random.unit() * capacities.reduce((sum, capacity) => sum + capacity, 0);
  return Math.max(
    0,
    capacities.findIndex((capacity) => (left -= capacity) < 0),
  );
}
