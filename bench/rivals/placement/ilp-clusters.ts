/**
 * @file The optimum by integer programming, three programs one after the other through the solver port: fewest clusters, best bottleneck, least stranded.
 * A rival in time, and a second source of the optimum.
 *
 * x says which clusters are open. First Σx is least, with Σ free·x ≥ gang and x + y ≤ 1 where two do not reach each other. Then, with Σx fixed, the width B is
 * highest, with B ≤ β(i, j) + most·(2 − x − y) for every pair. Then, with pairs below that width shut out, Σ free·x is least. One program with three
 * weights would have to distinguish a cluster from a bit per second within the solver's tolerance.
 * Cost: the solver's, over n²/2 rows. Only the bench runs it. Source: the ILP of SpiderFlow §5.4.1.
 */

import type {
  MilpLimits,
  MilpProblem,
  MilpRow,
  MilpSolver,
  MilpVariable,
} from "../../../lib/milp.ts";
import {
  filled,
  type ClusterAnswer,
  type ClusterRoom,
  type ClusterDemand,
} from "../../../scheduling/placement/cluster-policy.ts";
import { widestFrom } from "../../../scheduling/placement/link-graph.ts";

interface IlpPorts {
  readonly solverFor: (problem: MilpProblem) => MilpSolver;
  /** Of each of the three programs. */
  readonly limits: MilpLimits;
}

/** `work` counts rows. No choice: none exists, or a solver gave up. */
export async function ilpClusters(
  demand: ClusterDemand,
  room: ClusterRoom,
  ports: IlpPorts,
): Promise<ClusterAnswer> {
  const open = Array.from(room.free, (_, cluster) => cluster).filter(
    (cluster) => (room.free[cluster] ?? 0) > 0,
  );
  const sizes = open.map((cluster) => room.free[cluster] ?? 0);
  const pairs = pairsOf(open, room);
  const holds: MilpRow = {
    name: "gang",
    terms: sizes.map((coefficient, variable) => ({ variable, coefficient })),
    lower: demand.gpus,
    upper: Infinity,
  };
  const unreached = shutOut(pairs, Number.MIN_VALUE);
  let work = 0;
  const solve = async (problem: MilpProblem): Promise<readonly number[] | undefined> => {
    work += problem.rows.length;
    const answer = await ports.solverFor(problem).solve(problem, ports.limits);
    return answer.status === "optimal" || answer.status === "feasible" ? answer.values : undefined;
  };
  const isOpen = (values: readonly number[], at: number): boolean => (values[at] ?? 0) > 0.5;

  const fewest = await solve({
    name: "fewest clusters",
    sense: "minimise",
    variables: choices(open, () => 1),
    rows: [holds, ...unreached],
  });
  if (fewest === undefined) return { work };
  const clusters = open.filter((_, at) => isOpen(fewest, at)).length;
  const asMany: MilpRow = {
    name: "clusters",
    terms: open.map((_, variable) => ({ variable, coefficient: 1 })),
    lower: clusters,
    upper: clusters,
  };

  let narrow = unreached;
  if (clusters > 1) {
    const most = pairs.reduce((widest, { gbps }) => Math.max(widest, gbps), 0);
    const widest = await solve({
      name: "best bottleneck",
      sense: "maximise",
      variables: [...choices(open, () => 0), widthVariable(most)],
      rows: [holds, asMany, ...unreached, ...pairs.map((pair) => bound(pair, most, open.length))],
    });
    if (widest === undefined) return { work };
    const width = pairs
      .filter(({ a, b }) => isOpen(widest, a) && isOpen(widest, b))
      .reduce((least, { gbps }) => Math.min(least, gbps), Infinity);
    narrow = shutOut(pairs, width);
  }

  const least = await solve({
    name: "least stranded",
    sense: "minimise",
    variables: choices(open, (at) => sizes[at] ?? 0),
    rows: [holds, asMany, ...narrow],
  });
  if (least === undefined) return { work };
  const chosen = open.filter((_, at) => isOpen(least, at));
  const bySize = chosen.sort((a, b) => (room.free[b] ?? 0) - (room.free[a] ?? 0) || a - b);
  const choice = filled(bySize, demand, room);
  return { ...(choice && { choice }), work };
}

interface Pair {
  /** Places among the open clusters. */
  readonly a: number;
  readonly b: number;
  readonly gbps: number;
}

function pairsOf(open: readonly number[], { links }: ClusterRoom): readonly Pair[] {
  return open.flatMap((cluster, a) => {
    const widths = widestFrom(links, cluster);
    return open.slice(a + 1).map((other, at) => ({ a, b: a + 1 + at, gbps: widths[other] ?? 0 }));
  });
}

const choices = (
  open: readonly number[],
  costOf: (at: number) => number,
): readonly MilpVariable[] =>
  open.map((cluster, at) => ({
    name: `x${String(cluster)}`,
    lower: 0,
    upper: 1,
    isInteger: true,
    cost: costOf(at),
  }));

const widthVariable = (most: number): MilpVariable => ({
  name: "width",
  lower: 0,
  upper: most,
  isInteger: false,
  cost: 1,
});

/** Of two that reach each other at less than this width, one at most. */
const shutOut = (pairs: readonly Pair[], gbps: number): readonly MilpRow[] =>
  pairs
    .filter((pair) => pair.gbps < gbps)
    .map(({ a, b }) => ({
      name: `apart ${String(a)} ${String(b)}`,
      terms: [
        { variable: a, coefficient: 1 },
        { variable: b, coefficient: 1 },
      ],
      lower: -Infinity,
      upper: 1,
    }));

const bound = ({ a, b, gbps }: Pair, most: number, width: number): MilpRow => ({
  name: `width ${String(a)} ${String(b)}`,
  terms: [
    { variable: width, coefficient: 1 },
    { variable: a, coefficient: most },
    { variable: b, coefficient: most },
  ],
  lower: -Infinity,
  upper: gbps + 2 * most,
});
