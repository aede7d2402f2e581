/**
 * @file The graphs that cuts are compared on: drawn ones, uniform and clustered, and readers of further ones.
 *
 * A drawn graph is connected (each node is joined to an earlier one first), nodes weigh 1 to 5 and edges 1 to 9. In a clustered one 19 of 20
 * edges beyond those stay within one of 8 to 16 groups. The content of the file shows its format: MSR's JSON, a PipeDream
 * profile, METIS' `.graph`, or an edge list `a b [weight]`.
 */

import type { ModelGraph, ParsedGraph } from "../../domain/model/model-graph.ts";
import { parseMsrGraph } from "../../domain/model/parse-msr-graph.ts";
import { parsePipeDream } from "../../domain/model/parse-pipedream.ts";
import { refuse, type Problem } from "../../domain/values/problem.ts";
import { randomFrom } from "../../lib/random.ts";
import {
  cutGraphOf,
  type CutGraph,
  type WeightedEdge,
} from "../../planning/parallelism/cut-graph.ts";

export const GRAPH_KINDS = ["uniform", "clustered"] as const;
type GraphKind = (typeof GRAPH_KINDS)[number];

interface DrawnSize {
  readonly nodes: number;
  readonly edges: number;
}

export function drawnGraph(kind: GraphKind, { nodes, edges }: DrawnSize, seed: number): CutGraph {
  const random = randomFrom(seed, `cut-${kind}-${nodes}-${edges}`);
  const found: WeightedEdge[] = [];
  const seen = new Set<number>();
  const join = (a: number, b: number): void => {
    const key = Math.min(a, b) * nodes + Math.max(a, b);
    if (a === b || seen.has(key)) return;
    seen.add(key);
    found.push({ a, b, weight: 1 + random.below(9) });
  };
  const groupCount = 8 + random.below(9);
  const groups = Array.from({ length: nodes }, () => random.below(groupCount));
  for (let node = 1; node < nodes; node += 1) join(node, random.below(node));
  const most = Math.min(edges, (nodes * (nodes - 1)) / 4);
  while (found.length < most) {
    const [a, b] = [random.below(nodes), random.below(nodes)];
    const isInside = groups[a] === groups[b];
    if (kind === "clustered" && !isInside && random.unit() < 0.95) continue;
    join(a, b);
  }
  const weights = Array.from({ length: nodes }, () => 1 + random.below(5));
  return cutGraphOf(weights, found);
}

/** A model's graph: nodes weigh their time (or 1 where no time is known), edges the bytes they carry. */
function modelCutGraph(graph: ModelGraph): CutGraph {
  const isTimed = graph.nodes.some(({ forwardMs, backwardMs }) => forwardMs + backwardMs > 0);
  return cutGraphOf(
    graph.nodes.map(({ forwardMs, backwardMs }) => (isTimed ? forwardMs + backwardMs : 1)),
    graph.edges.map(({ from, to, bytes }) => ({ a: from, b: to, weight: bytes })),
  );
}

type ReadCutGraph =
  | { readonly kind: "parsed"; readonly graph: CutGraph; readonly format: string }
  | { readonly kind: "refused"; readonly problems: readonly Problem[] };

/** Read as MSR's JSON or as a PipeDream profile; undefined of a format whose edges have no direction. */
function readModel(text: string, file: string): (ParsedGraph & { format: string }) | undefined {
  if (text.trimStart().startsWith("{")) return { ...parseMsrGraph(text, file), format: "MSR" };
  return /^node\S* -- /m.test(text)
    ? { ...parsePipeDream(text, file), format: "PipeDream" }
    : undefined;
}

/** Undefined where edges have no direction, and of a broken file, which `readCutGraph` refuses. */
export function modelGraphOf(text: string, file: string): ModelGraph | undefined {
  const read = readModel(text, file);
  return read?.kind === "parsed" ? read.graph : undefined;
}

export function readCutGraph(text: string, file: string): ReadCutGraph {
  const model = readModel(text, file);
  if (model?.kind === "refused") return model;
  if (model !== undefined)
    return { kind: "parsed", graph: modelCutGraph(model.graph), format: model.format };
  // The last line ends; what follows it is none.
  const rows = text
    .replace(/(\r\n|\n|\r)$/, "")
    .split(/\r\n|\n|\r/)
    .map((row, at) => ({ line: at + 1, row: row.trim() }));
  const content = rows.filter(({ row }) => !/^[%#]/.test(row));
  const numbers = content.map(({ line, row }) => ({
    line,
    values: row === "" ? [] : row.split(/[\s,;]+/).map(Number),
  }));
  const bad = numbers.find(({ values }) => values.some((value) => !Number.isFinite(value)));
  if (bad !== undefined)
    return refuse(file, [
      {
        line: bad.line,
        message: "this line holds something that is no number",
        remedy: "give MSR's JSON, a PipeDream profile, a METIS .graph or lines `a b [weight]`",
      },
    ]);
  const isMetis = /\.(graph|metis)$/.test(file) || looksLikeMetis(numbers);
  return isMetis ? metisGraph(numbers, file) : edgeList(numbers, file);
}

interface Row {
  readonly line: number;
  readonly values: readonly number[];
}

/** A header `nodes edges [format]` followed by as many lines as it has nodes. */
function looksLikeMetis(rows: readonly Row[]): boolean {
  const [nodes = 0, edges = 0] = rows[0]?.values ?? [];
  const lines = rows.slice(1);
  while (lines.at(-1)?.values.length === 0 && lines.length > nodes) lines.pop();
  return nodes > 2 && lines.length === nodes && edges > 0;
}

/** METIS 5: `nodes edges [fmt [constraints]]`, then a line a node; fmt's digits: sizes, node weights, edge weights. */
function metisGraph(rows: readonly Row[], file: string): ReadCutGraph {
  const [head, ...lines] = rows;
  const [nodes = 0, edgeCount = 0, format = 0, constraints = 1] = head?.values ?? [];
  const digits = String(format).padStart(3, "0");
  const [hasSizes, hasWeights, hasEdgeWeights] = [...digits].map((digit) => digit === "1");
  const problems: Problem[] = [];
  if (lines.length < nodes)
    problems.push({
      line: head?.line ?? 1,
      message: `the header says ${nodes} nodes, ${lines.length} lines follow`,
      remedy: "give one line for each node, empty for a node without edges",
    });
  const weights: number[] = [];
  const edges: WeightedEdge[] = [];
  const skip = hasSizes === true ? 1 : 0;
  for (const [node, { line, values }] of lines.slice(0, nodes).entries()) {
    weights.push(hasWeights === true ? (values[skip] ?? 1) : 1);
    const step = hasEdgeWeights === true ? 2 : 1;
    for (let at = skip + (hasWeights === true ? constraints : 0); at < values.length; at += step) {
      const other = (values[at] ?? 0) - 1;
      const weight = hasEdgeWeights === true ? (values[at + 1] ?? NaN) : 1;
      if (!Number.isInteger(other) || other < 0 || other >= nodes || !(weight >= 0))
        problems.push({
          line,
          message: `node ${node + 1} has the neighbour ${values[at] ?? "?"} with weight ${weight}`,
          remedy: `name neighbours from 1 to ${nodes}`,
        });
      // Each edge stands at both ends.
      else if (other > node) edges.push({ a: node, b: other, weight });
    }
  }
  if (problems.length > 0) return refuse(file, problems);
  if (edges.length !== edgeCount)
    return refuse(file, [
      {
        line: head?.line ?? 1,
        message: `the header says ${edgeCount} edges, the lines hold ${edges.length}`,
        remedy: "name every edge at both of its nodes",
      },
    ]);
  return checkedWeights(cutGraphOf(weights, edges), file, "METIS");
}

function edgeList(rows: readonly Row[], file: string): ReadCutGraph {
  const ids = new Map<number, number>();
  const edges: WeightedEdge[] = [];
  const indexOf = (id: number): number => {
    const known = ids.get(id);
    if (known !== undefined) return known;
    ids.set(id, ids.size);
    return ids.size - 1;
  };
  for (const { line, values } of rows) {
    if (values.length === 0) continue;
    const [a, b, weight = 1] = values;
    if (a === undefined || b === undefined || values.length > 3 || weight < 0)
      return refuse(file, [
        { line, message: `${values.length} numbers`, remedy: "write `a b` or `a b weight`" },
      ]);
    edges.push({ a: indexOf(a), b: indexOf(b), weight });
  }
  if (edges.length === 0)
    return refuse(file, [
      { line: 1, message: "there is no edge", remedy: "write `a b weight` lines" },
    ]);
  const weights = Array.from({ length: ids.size }, () => 1);
  return checkedWeights(cutGraphOf(weights, edges), file, "edge list");
}

function checkedWeights(graph: CutGraph, file: string, format: string): ReadCutGraph {
  const node = graph.nodeWeights.findIndex((weight) => !(weight >= 0));
  return node < 0
    ? { kind: "parsed", graph, format }
    : refuse(file, [
        {
          line: 1,
          message: `node ${node + 1} weighs less than nothing`,
          remedy: "give weights from 0",
        },
      ]);
}
