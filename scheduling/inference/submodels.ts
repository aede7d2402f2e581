/**
 * @file Cuts a model into submodels at the operations that every path passes (SortingHat §3.1).
 *
 * Each submodel ends with its `nDom`-th partition node; an operation belongs to the first submodel whose end it leads to. What a
 * submodel reads from earlier ones are its placeholders: the last partition node, and any result that skips over it. Cost: O(edges).
 */

import { dominators, type AcyclicGraph } from "./dominators.ts";
import { listAt } from "./problem.ts";

export interface Submodel {
  /** Ascending. */
  readonly operations: readonly number[];
  /** Operations of earlier submodels whose results are read here, ascending. */
  readonly placeholders: readonly number[];
}

export function submodels(graph: AcyclicGraph, nDom = 1): Submodel[] {
  const { chain } = dominators(graph);
  const ends = chain.filter((_, index) => (index + 1) % nDom === 0 || index === chain.length - 1);
  const rankOf = new Map(ends.map((end, rank) => [end, rank]));
  const rank = new Int32Array(graph.operationCount);
  for (let operation = graph.operationCount - 1; operation >= 0; operation -= 1) {
    // Outputs beside the chain lead to the virtual exit, behind the last cut.
    let least = rankOf.get(operation) ?? ends.length;
    for (const reader of listAt(graph.readers, operation))
      least = Math.min(least, rank[reader] ?? least);
    rank[operation] = least;
  }
  const members: number[][] = Array.from({ length: ends.length + 1 }, () => []);
  for (const [operation, at] of rank.entries()) members[at]?.push(operation);
  return members.flatMap((operations) =>
    operations.length === 0 ? [] : [{ operations, placeholders: readFrom(graph, operations) }],
  );
}

function readFrom(graph: AcyclicGraph, operations: readonly number[]): number[] {
  const own = new Set(operations);
  const outside = new Set(
    operations.flatMap((each) =>
      [...listAt(graph.inputs, each)].filter((input) => !own.has(input)),
    ),
  );
  return [...outside].sort((a, b) => a - b);
}
