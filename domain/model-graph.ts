/**
 * @file A model as a graph of operators or layers with measured times and sizes, as profilers write it.
 *
 * Nodes are what runs, edges what one hands to another. Readers of files give acyclic graphs only; `topologicalOrder` is iterative,
 * because operator graphs of large models are thousands of nodes deep. Cost: one pass over nodes and edges; ties go to the lower index.
 */

import type { Problem } from "./problem.ts";

export interface GraphNode {
  readonly id: string;
  readonly name: string;
  /** On the profiled accelerator; 0 when unknown or absent. */
  readonly forwardMs: number;
  readonly backwardMs: number;
  /** On a processor instead. */
  readonly processorMs?: number;
  readonly parameterBytes: number;
  /** What one execution hands on. */
  readonly outputBytes: number;
  readonly isBackward: boolean;
  readonly isAcceleratable: boolean;
  /** Nodes of one group run on one device. */
  readonly group?: string;
  readonly flops?: number;
}

export interface GraphEdge {
  /** Indices into the nodes. */
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
}

export interface ModelGraph {
  readonly name: string;
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  readonly memoryBytesPerDevice?: number;
}

export type ParsedGraph =
  | { readonly kind: "parsed"; readonly graph: ModelGraph }
  | { readonly kind: "refused"; readonly problems: readonly Problem[] };

/** Nodes in an order in which every edge goes forward; undefined when the graph has a cycle. */
export function topologicalOrder(graph: ModelGraph): readonly number[] | undefined {
  const { order } = peeled(graph);
  return order.length === graph.nodes.length ? order : undefined;
}

/** The ids along one cycle, its first one again at the end; undefined when there is none. */
export function cycleOf(graph: ModelGraph): readonly string[] | undefined {
  const { order, open } = peeled(graph);
  if (order.length === graph.nodes.length) return undefined;
  // Every node left over has an edge from another one left over: walking backwards must come round.
  const before = new Map<number, number>();
  for (const { from, to } of graph.edges)
    if ((open[from] ?? 0) > 0 && (open[to] ?? 0) > 0 && !before.has(to)) before.set(to, from);
  const walked: number[] = [];
  const places = new Map<number, number>();
  let at = open.findIndex((count) => count > 0);
  while (!places.has(at)) {
    places.set(at, walked.length);
    walked.push(at);
    const next = before.get(at);
    if (next === undefined) return undefined;
    at = next;
  }
  const cycle = [...walked.slice(places.get(at)), at].reverse();
  return cycle.map((node) => graph.nodes[node]?.id ?? "");
}

/** Kahn's order as far as it goes, and how many edges into each node are still open. */
function peeled({ nodes, edges }: ModelGraph): { order: number[]; open: number[] } {
  const open = nodes.map(() => 0);
  const next: number[][] = nodes.map(() => []);
  for (const { from, to } of edges) {
    open[to] = (open[to] ?? 0) + 1;
    next[from]?.push(to);
  }
  const order = nodes.flatMap((_, at) => (open[at] === 0 ? [at] : []));
  for (let at = 0; at < order.length; at += 1) {
    for (const to of next[order[at] ?? -1] ?? []) {
      const left = (open[to] ?? 0) - 1;
      open[to] = left;
      if (left === 0) order.push(to);
    }
  }
  return { order, open };
}

/** Refuses cycles, which the readers of all formats must. */
export function checkedGraph(graph: ModelGraph): ParsedGraph {
  const cycle = cycleOf(graph);
  if (cycle === undefined) return { kind: "parsed", graph };
  const shownIds = cycle.length > 8 ? [...cycle.slice(0, 4), "…", ...cycle.slice(-3)] : cycle;
  const message = `the edges go round in a circle: ${shownIds.join(" → ")}`;
  return {
    kind: "refused",
    problems: [{ line: 1, message, remedy: "leave out the edge that goes back" }],
  };
}
