/**
 * @file Reads device-placement graphs in Microsoft Research's JSON format ("Efficient Algorithms for Device Placement of DNN
 * Graph Operators", NeurIPS 2020): nodes with latencies, sizes and colour classes, edges with costs and sizes.
 *
 * "FPGA" there means any accelerator. An edge's `cost` (time to host memory) is not read: it is size / 2 GiB/s, and in one published file
 * it has another scale. JSON keeps no lines, so a message names the place as `nodes[3].size`. All problems are reported at once.
 */

import { shown } from "../values/file-problem.ts";
import {
  checkedGraph,
  type GraphEdge,
  type GraphNode,
  type ModelGraph,
  type ParsedGraph,
} from "./model-graph.ts";
import { refuse, type Problem } from "../values/problem.ts";
import { refuseBySize } from "../values/text-lines.ts";

export function parseMsrGraph(text: string, file: string): ParsedGraph {
  const bySize = refuseBySize(text, file, { what: "a graph of MSR's JSON form" });
  if (bySize !== undefined) return bySize;
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch (error) {
    const message = `this is not JSON: ${error instanceof Error ? error.message : String(error)}`;
    return refuse(file, [{ line: 1, message, remedy: "give the whole file as it was published" }]);
  }
  const problems: Problem[] = [];
  const found = mapOf(read);
  const nodeRows = listOf(found, "nodes", problems);
  const edgeRows = listOf(found, "edges", problems);
  const byId = new Map<string, number>();
  const nodes = nodeRows.map((row, at) => nodeOf(mapOf(row), at, { problems, byId }));
  const edges = edgeRows.map((row, at) => edgeOf(mapOf(row), at, { problems, byId }));
  if (problems.length > 0) return refuse(file, problems);
  const memory = found.get("maxSizePerFPGA");
  const graph: ModelGraph = {
    name: file.replace(/^.*\//, "").replace(/\.json(\.gz)?$/, ""),
    nodes: withOutputs(nodes, edges),
    edges,
    ...(typeof memory === "number" && memory > 0 && { memoryBytesPerDevice: memory }),
  };
  return checkedGraph(graph);
}

interface Reading {
  readonly problems: Problem[];
  readonly byId: Map<string, number>;
}

function nodeOf(row: Row, at: number, { problems, byId }: Reading): GraphNode {
  const place = `nodes[${at}]`;
  const id = idOf(row, "id", { place, problems });
  if (byId.has(id))
    problems.push({
      line: 1,
      message: `${place}.id: ${shown(id)} is also the id of nodes[${byId.get(id) ?? 0}]`,
      remedy: "give every node an id of its own",
    });
  byId.set(id, at);
  const number = (key: string): number => amountOf(row, key, { place, problems });
  // Written as 0 and 1 in the layer graphs, as booleans in the operator graphs.
  const isBackward = row.get("isBackwardNode") === true || row.get("isBackwardNode") === 1;
  const acceleratorMs = number("fpgaLatency");
  const group = row.get("colorClass");
  const name = row.get("name");
  return {
    id,
    name: typeof name === "string" ? name : id,
    forwardMs: isBackward ? 0 : acceleratorMs,
    backwardMs: isBackward ? acceleratorMs : 0,
    processorMs: number("cpuLatency"),
    parameterBytes: number("size"),
    outputBytes: 0,
    isBackward,
    isAcceleratable: row.get("supportedOnFpga") !== false && row.get("supportedOnFpga") !== 0,
    ...(group !== undefined && group !== null && { group: String(group) }),
  };
}

function edgeOf(row: Row, at: number, { problems, byId }: Reading): GraphEdge {
  const place = `edges[${at}]`;
  const end = (key: string): number => {
    const id = idOf(row, key, { place, problems });
    const node = byId.get(id);
    if (node === undefined && id !== "")
      problems.push({
        line: 1,
        message: `${place}.${key}: no node has the id ${shown(id)}`,
        remedy: "name a node of the list",
      });
    return node ?? 0;
  };
  return {
    from: end("sourceId"),
    to: end("destId"),
    bytes: amountOf(row, "size", { place, problems }),
  };
}

/** Edges that leave one node carry the same tensor. */
function withOutputs(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): GraphNode[] {
  const largest = nodes.map(() => 0);
  for (const { from, bytes } of edges) largest[from] = Math.max(largest[from] ?? 0, bytes);
  return nodes.map((node, at) => ({ ...node, outputBytes: largest[at] ?? 0 }));
}

type Row = ReadonlyMap<string, unknown>;

const mapOf = (value: unknown): Row =>
  typeof value === "object" && value !== null && !Array.isArray(value)
    ? new Map(Object.entries(value))
    : new Map();

function listOf(found: Row, key: string, problems: Problem[]): readonly unknown[] {
  const list: unknown = found.get(key);
  if (Array.isArray(list) && (list.length > 0 || key === "edges")) return list;
  const message = `${key} is ${shown(list)}`;
  problems.push({ line: 1, message, remedy: `give a list of ${key}` });
  return [];
}

interface Place {
  readonly place: string;
  readonly problems: Problem[];
}

function idOf(row: Row, key: string, { place, problems }: Place): string {
  const id = row.get(key);
  if (typeof id === "number" || (typeof id === "string" && id !== "")) return String(id);
  const message = `${place}.${key} is ${shown(id)}`;
  problems.push({ line: 1, message, remedy: "write a number or a name" });
  return "";
}

function amountOf(row: Row, key: string, { place, problems }: Place): number {
  const value = row.get(key) ?? 0;
  if (typeof value === "number" && Number.isFinite(value) && value >= 0) return value;
  const message = `${place}.${key} is ${shown(value)}`;
  problems.push({ line: 1, message, remedy: "write a number, 0 or more" });
  return 0;
}
