/**
 * @file A model's operators as a pipeline is cut from them: work, memory, an order that stages must keep, and the tensors that cross borders.
 *
 * A pipeline runs an operator's backward pass where it runs the forward one, so nodes of one group, and what lies on a way between two of them, are
 * one operator here. Backward edges run against the forward ones in traces and along them in the published layer graphs; the direction that keeps
 * more operators apart is meant. A tensor goes from stage to stage until its last reader, as Megatron-LM sends: it crosses every border between
 * the first and the last stage that makes or reads it, once. Where a graph has no backward nodes, each tensor has a gradient of its size.
 * Cost: O(nodes + edges); operators are numbered by their first node.
 */

import type { ModelGraph } from "../../domain/model/model-graph.ts";
import { componentsOf } from "./components.ts";

export interface PipelineGraph {
  /** The nodes of the model's graph in each operator, ascending. */
  readonly members: readonly (readonly number[])[];
  /** Forward and backward of one sample, where it was profiled. */
  readonly workMs: Float64Array;
  /** Parameters. */
  readonly parameterBytes: Float64Array;
  /** Outputs, kept until backward. */
  readonly keptBytes: Float64Array;
  /** Operators that must not lie in an earlier stage than this one, and those that must not lie in a later one. */
  readonly after: readonly (readonly number[])[];
  readonly before: readonly (readonly number[])[];
  readonly tensors: readonly PipelineTensor[];
}

export interface PipelineTensor {
  /** Its maker and its readers, two at least. */
  readonly ends: readonly number[];
  /** Over a border in one direction, as a mean of activation and gradient. */
  readonly bytes: number;
}

export function pipelineGraph(graph: ModelGraph): PipelineGraph {
  const [against, along] = [foldedBy(graph, true), foldedBy(graph, false)];
  const { operators, count } = along.count > against.count ? along : against;
  const { nodes, edges } = graph;
  const members: number[][] = Array.from({ length: count }, () => []);
  const [workMs, parameterBytes, keptBytes] = [
    new Float64Array(count),
    new Float64Array(count),
    new Float64Array(count),
  ];
  const add = (to: Float64Array, at: number, value: number): void => {
    to[at] = (to[at] ?? 0) + value;
  };
  for (const [at, node] of nodes.entries()) {
    const own = operators[at] ?? 0;
    members[own]?.push(at);
    add(workMs, own, node.forwardMs + node.backwardMs);
    if (!node.isBackward) add(parameterBytes, own, node.parameterBytes);
    if (!node.isBackward) add(keptBytes, own, node.outputBytes);
  }
  const after: Set<number>[] = members.map(() => new Set());
  const before: Set<number>[] = members.map(() => new Set());
  for (const [from, to] of along.count > against.count ? along.order : against.order) {
    const [a, b] = [operators[from] ?? 0, operators[to] ?? 0];
    if (a === b) continue;
    after[a]?.add(b);
    before[b]?.add(a);
  }
  const hasBackward = nodes.some(({ isBackward }) => isBackward);
  const ends: Set<number>[] = nodes.map((_, at) => new Set([operators[at] ?? 0]));
  for (const { from, to } of edges) ends[from]?.add(operators[to] ?? 0);
  const tensors = ends.flatMap((set, at): PipelineTensor[] => {
    const bytes = (nodes[at]?.outputBytes ?? 0) / (hasBackward ? 2 : 1);
    return set.size < 2 || bytes === 0 ? [] : [{ ends: [...set], bytes }];
  });
  const sorted = (sets: readonly Set<number>[]): readonly (readonly number[])[] =>
    sets.map((set) => [...set].sort((a, b) => a - b));
  return {
    ...{ members, workMs, parameterBytes, keptBytes, tensors },
    ...{ after: sorted(after), before: sorted(before) },
  };
}

interface Folded {
  /** Of each node. */
  readonly operators: Int32Array;
  readonly count: number;
  /** Pairs of nodes of which the second must not lie in an earlier stage. */
  readonly order: readonly (readonly [number, number])[];
}

function foldedBy({ nodes, edges }: ModelGraph, isAgainst: boolean): Folded {
  const order = edges.map(({ from, to }): readonly [number, number] =>
    isAgainst && nodes[from]?.isBackward === true && nodes[to]?.isBackward === true
      ? [to, from]
      : [from, to],
  );
  const next: number[][] = nodes.map(() => []);
  for (const [from, to] of order) next[from]?.push(to);
  // The nodes of a group stand in a circle, so that they and all between them are one component.
  const lastOf = new Map<string, number>();
  const firstOf = new Map<string, number>();
  for (const [at, { group }] of nodes.entries()) {
    if (group === undefined) continue;
    const last = lastOf.get(group);
    if (last === undefined) firstOf.set(group, at);
    else next[last]?.push(at);
    lastOf.set(group, at);
  }
  for (const [group, last] of lastOf) next[last]?.push(firstOf.get(group) ?? last);
  return { ...componentsOf(next), order };
}
