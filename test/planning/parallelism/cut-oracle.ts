/** @file Small graphs, and the lightest of all their cuts by trying every one. */

import fc from "fast-check";
import { cutGraphOf, cutWeight, type CutGraph } from "../../../planning/parallelism/cut-graph.ts";

export interface SmallGraphs {
  readonly leastNodeWeight: number;
  readonly edgeWeight: fc.Arbitrary<number>;
  readonly mostEdges: number;
}

/** Of two to seven nodes that weigh up to 4. */
export const smallGraphs = ({
  leastNodeWeight,
  edgeWeight,
  mostEdges,
}: SmallGraphs): fc.Arbitrary<CutGraph> =>
  fc
    .record({
      weights: fc.array(fc.integer({ min: leastNodeWeight, max: 4 }), {
        minLength: 2,
        maxLength: 7,
      }),
      edges: fc.array(
        fc.record({ a: fc.nat({ max: 6 }), b: fc.nat({ max: 6 }), weight: edgeWeight }),
        { maxLength: mostEdges },
      ),
    })
    .map(({ weights, edges }) =>
      cutGraphOf(
        weights,
        edges.filter(({ a, b }) => a < weights.length && b < weights.length),
      ),
    );

/** The lightest of all cuts that hold and that `isAllowed`; undefined when there is none. */
export function lightest(
  graph: CutGraph,
  capacities: readonly number[],
  isAllowed: (parts: Int32Array) => boolean = () => true,
): number | undefined {
  let best: number | undefined;
  const parts = new Int32Array(graph.nodeCount);
  const tryFrom = (node: number, loads: readonly number[]): void => {
    if (node === graph.nodeCount) {
      if (isAllowed(parts)) best = Math.min(best ?? Infinity, cutWeight(graph, parts));
      return;
    }
    for (const [part, load] of loads.entries()) {
      const next = load + (graph.nodeWeights[node] ?? 0);
      if (next > (capacities[part] ?? 0)) continue;
      parts[node] = part;
      tryFrom(
        node + 1,
        loads.map((held, at) => (at === part ? next : held)),
      );
    }
  };
  tryFrom(
    0,
    capacities.map(() => 0),
  );
  return best;
}
