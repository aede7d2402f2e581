/**
 * @file Joins nodes without weight to the neighbour that they never need to leave: a smaller graph with the same lightest cuts.
 *
 * A node without weight fits into any part. If one of its edges is at least as heavy as all the others together, moving it to that edge's
 * other end never makes a cut heavier, so some lightest cut has both in one part. Joining them may leave another such node, so rounds repeat
 * until there is none. Two thirds of the operators of a ResNet take no measurable time.
 * Cost: O(edges) for each round, about log2 of the longest chain of such joins rounds.
 */

import { contracted, type Coarse } from "./coarsen.ts";
import type { CutGraph } from "./cut-graph.ts";

/** Undefined when no node can be joined. */
export function withoutWeightless(graph: CutGraph): Coarse | undefined {
  let small = graph;
  let groups: Int32Array | undefined;
  for (;;) {
    const joined = joinedOnce(small);
    if (joined === undefined) break;
    const next = joined.groups;
    groups = groups === undefined ? next : groups.map((group) => next[group] ?? 0);
    small = joined.graph;
  }
  return groups === undefined ? undefined : { graph: small, groups };
}

function joinedOnce(graph: CutGraph): Coarse | undefined {
  const { nodeCount, starts, neighbours, edgeWeights, nodeWeights } = graph;
  const target = new Int32Array(nodeCount).fill(-1);
  const isTarget = new Uint8Array(nodeCount);
  let joins = 0;
  for (let node = 0; node < nodeCount; node += 1) {
    // A node that another one joins stays in place until the next round.
    if ((nodeWeights[node] ?? 0) > 0 || isTarget[node] === 1) continue;
    let sum = 0;
    let heaviest = -1;
    let other = -1;
    for (let at = starts[node] ?? 0; at < (starts[node + 1] ?? 0); at += 1) {
      const weight = edgeWeights[at] ?? 0;
      sum += weight;
      if (weight > heaviest) [heaviest, other] = [weight, neighbours[at] ?? 0];
    }
    if (other < 0 || 2 * heaviest < sum || (target[other] ?? -1) >= 0) continue;
    target[node] = other;
    isTarget[other] = 1;
    joins += 1;
  }
  if (joins === 0) return undefined;
  const groups = new Int32Array(nodeCount).fill(-1);
  let count = 0;
  for (let node = 0; node < nodeCount; node += 1)
    if ((target[node] ?? -1) < 0) groups[node] = count++;
  for (let node = 0; node < nodeCount; node += 1) {
    const other = target[node] ?? -1;
    if (other >= 0) groups[node] = groups[other] ?? 0;
  }
  return { graph: contracted(graph, groups, count), groups };
}
