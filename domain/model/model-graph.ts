/**
 * @file A model as a graph of operators or layers with measured times and sizes, as profilers write it.
 *
 * A node is an operator or a layer, an edge the tensor that one node passes to another. Readers of files return acyclic graphs only.
 * Order and cycles come from the labelled graph (labelled-graph.ts). Cost: one pass over nodes and edges; ties go to the lower index.
 */

import type { Problem } from "../values/problem.ts";
import {
  cycleIn,
  labelledGraph,
  topologicalOrder as orderOf,
  type LabelledGraph,
} from "./labelled-graph.ts";

export interface GraphNode {
  readonly id: string;
  readonly name: string;
  /** On the profiled accelerator; 0 when unknown or absent. */
  readonly forwardMs: number;
  readonly backwardMs: number;
  /** On a processor instead of the accelerator. */
  readonly processorMs?: number;
  readonly parameterBytes: number;
  /** Size of the output of one execution. */
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

/** The labelled graph of a model, built once. */
const labelled = new WeakMap<ModelGraph, LabelledGraph>();

function labelledOf(graph: ModelGraph): LabelledGraph {
  const known = labelled.get(graph) ?? labelledGraph(graph.nodes.length, graph.edges);
  labelled.set(graph, known);
  return known;
}

/** Nodes in an order in which every edge goes forward; undefined when the graph has a cycle. */
export function topologicalOrder(graph: ModelGraph): readonly number[] | undefined {
  const { order, left } = orderOf(labelledOf(graph));
  return left.length === 0 ? order : undefined;
}

/** The ids along one cycle, with the first one again at the end; undefined when the graph is acyclic. */
export const cycleOf = (graph: ModelGraph): readonly string[] | undefined =>
  cycleIn(labelledOf(graph))?.map((node) => graph.nodes[node]?.id ?? "");

/** Refuses a graph with a cycle. Every reader of a format calls it. */
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
