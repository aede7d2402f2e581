/**
 * @file Cuts a model into submodels at the operations that every path passes (SortingHat §3.1).
 *
 * Each submodel ends with its `nDom`-th partition node; an operation belongs to the first submodel whose end it leads to. The
 * placeholders of a submodel are the results of earlier submodels that it reads: the last partition node, and any result that skips over
 * it. Models that are planned together are cut separately, and their n-th submodels form one integrated submodel (§6). Cost: O(edges).
 */

import {
  componentsOf,
  labelledGraph,
  type NumberedEdge,
} from "../../domain/model/labelled-graph.ts";
import { dominators, type AcyclicGraph } from "./dominators.ts";
import { listAt, type Lists } from "./problem.ts";

export interface Submodel {
  /** Ascending. */
  readonly operations: readonly number[];
  /** Operations of earlier submodels whose results are read here, ascending. */
  readonly placeholders: readonly number[];
}

export function submodels(graph: AcyclicGraph, nDom = 1): Submodel[] {
  const cuts = componentsOf(labelledGraph(graph.operationCount, edgesOf(graph))).map((members) =>
    cut(graph, members, nDom),
  );
  const count = Math.max(0, ...cuts.map(({ length }) => length));
  return Array.from({ length: count }, (_, at) => {
    const operations = cuts.flatMap((own) => own[at] ?? []).sort((a, b) => a - b);
    return { operations, placeholders: readFrom(graph, operations) };
  });
}

const edgesOf = ({ operationCount, inputs }: AcyclicGraph): NumberedEdge[] =>
  Array.from({ length: operationCount }, (_, to) =>
    [...listAt(inputs, to)].map((from) => ({ from, to })),
  ).flat();

/** One model cut at every `nDom`-th of its own partition nodes. */
function cut(graph: AcyclicGraph, members: readonly number[], nDom: number): number[][] {
  const isWhole = members.length === graph.operationCount;
  const { chain } = dominators(isWhole ? graph : partOf(graph, members));
  const ends = chain
    .filter((_, index) => (index + 1) % nDom === 0 || index === chain.length - 1)
    .map((end) => members[end] ?? end);
  const rankOf = new Map(ends.map((end, rank) => [end, rank]));
  const rank = new Map<number, number>();
  for (let at = members.length - 1; at >= 0; at -= 1) {
    const operation = members[at] ?? 0;
    // An output beside the chain leads to the virtual exit, behind the last cut.
    let least = rankOf.get(operation) ?? ends.length;
    for (const reader of listAt(graph.readers, operation))
      least = Math.min(least, rank.get(reader) ?? least);
    rank.set(operation, least);
  }
  const parts: number[][] = Array.from({ length: ends.length + 1 }, () => []);
  for (const operation of members) parts[rank.get(operation) ?? 0]?.push(operation);
  return parts.filter(({ length }) => length > 0);
}

/** The subgraph of the members, numbered from 0. */
function partOf({ inputs, readers }: AcyclicGraph, members: readonly number[]): AcyclicGraph {
  const numberOf = new Map(members.map((operation, at) => [operation, at]));
  const renumbered = (lists: Lists): Lists => {
    const own = members.map((each) =>
      [...listAt(lists, each)].flatMap((other) => numberOf.get(other) ?? []),
    );
    const start = new Int32Array(own.length + 1);
    for (const [at, list] of own.entries()) start[at + 1] = (start[at] ?? 0) + list.length;
    return { start, items: Int32Array.from(own.flat()) };
  };
  return {
    operationCount: members.length,
    inputs: renumbered(inputs),
    readers: renumbered(readers),
  };
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
