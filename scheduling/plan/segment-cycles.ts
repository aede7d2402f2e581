/**
 * @file Improves cuts of graphs that are nearly chains or trees: joins nodes to segments at random, anneals the segments, and polishes what comes of it, again and again.
 *
 * The best cut of such a graph separates few edges, and the way from a good cut to a better one moves whole runs of nodes: one node at a time has to climb over every heavy edge
 * between. Each cycle takes one of the lightest cuts so far (or none), joins nodes along edges, heavy ones first but with a random factor on each, until a random number of segments is left,
 * none too heavy and none across two parts of that cut; anneals the few segments; then anneals the nodes coldly from there. (KaFFPaE's cycles, Sanders and Schulz 2012, with Kruskal's
 * joins in place of matchings.) Cost: `steps`, in annealing steps; joins and polish are charged in the same coin. Ties go to the cut found first.
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
const FRESH_SHARE = 0.2;
/** Segments a part: from the first, up to that times the second. */
const SEGMENTS = { fewest: 2, span: 8 };
/** A segment weighs at most from this share of a part up to all of it. */
const LIGHTEST_LIMIT = 0.3;
/** Deviation of the logarithm of an edge's random factor, at most. */
const DISORDER = 1;
/** Annealing steps for each node and edge end, of the segments and of the graph; what joining costs, in steps. */
const [SEGMENT_STEPS, FINE_STEPS, JOIN_STEPS] = [150, 15, 10];
/** What is heavier than the heaviest kept cut by more than this is not polished. */
const HOPE = 1.1;
/** Cycles without a lighter cut, after which none is looked for: in all, and for each node of a small graph. */
const PATIENCE = { most: 150, perNode: 8 };
const FINE = { hottest: 0.2, coldest: 0.04 };
const HOTTEST = 2.2;
const COLDEST = 0.05;

/** The lightest first; `starts` among them as far as nothing better was found. */
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
  const patience = Math.min(PATIENCE.most, PATIENCE.perNode * graph.nodeCount);
  for (let cycle = 1; left > 0 && cycle - lastGain <= patience; cycle += 1) {
    const draw = random.stream(`cycle-${cycle}`);
    const isFresh = draw.unit() < FRESH_SHARE;
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
    const coarse = annealCut(segments.graph, start, { capacities, schedule, random: draw });
    const fine = annealCut(graph, projected(segments, coarse.best ?? coarse.last), {
      capacities,
      schedule: { ...FINE, steps: FINE_STEPS * ends },
      random: draw,
    });
    const weight = fine.best === undefined ? cutWeight(graph, fine.last) : fine.bestWeight;
    if (kept.length === KEPT && weight > HOPE * (kept.at(-1)?.weight ?? 0)) continue;
    // Mending and polishing look at pairs of nodes, a few times over.
    left -= graph.nodeCount ** 2 / 6;
    const held = fine.best ?? mendCut(graph, fine.last, capacities);
    if (held !== undefined) keep(kept, graph, descendCut(graph, held, capacities));
    const best = kept[0]?.weight ?? Infinity;
    if (best < lightest) [lightest, lastGain] = [best, cycle];
  }
  return kept;
}

function keep(kept: Cut[], graph: CutGraph, parts: Int32Array): void {
  const weight = cutWeight(graph, parts);
  // Twins would crowd out what differs.
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
