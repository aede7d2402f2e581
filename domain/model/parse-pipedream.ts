/**
 * @file Reads PipeDream profiles: `node1 -- Conv2d(…) -- forward_compute_time=2.2, …` lines, then `\tnode1 -- node2` edges.
 *
 * The time of an `Input` node is that of loading data, not of the model: it counts 0. A size may be a list `[a; b]`: it is summed.
 * An edge carries its source's output. A row that cannot be read is named, and the text is refused.
 */

import { shown } from "../values/file-problem.ts";
import { checkedGraph, type GraphEdge, type GraphNode, type ParsedGraph } from "./model-graph.ts";
import { quotedLine, refuse, type Problem } from "../values/problem.ts";
import { cleanLines, refuseBySize } from "../values/text-lines.ts";

const SEPARATOR = " -- ";

export function parsePipeDream(text: string, file: string): ParsedGraph {
  const bySize = refuseBySize(text, file, { what: "a PipeDream profile" });
  if (bySize !== undefined) return bySize;
  const problems: Problem[] = [];
  const nodes: GraphNode[] = [];
  const byId = new Map<string, number>();
  const edgeRows: { readonly line: number; readonly ends: readonly string[] }[] = [];
  for (const [at, row] of cleanLines(text).entries()) {
    const line = at + 1;
    if (row.trim() === "") continue;
    const parts = row.trim().split(SEPARATOR);
    if (parts.length === 2) edgeRows.push({ line, ends: parts });
    else if (parts.length < 2) {
      const message = `${quotedLine(row)} is neither a node nor an edge`;
      problems.push({
        line,
        message,
        remedy: "write `node1 -- operator -- key=value, …` or `node1 -- node2`",
      });
    } else {
      const node = nodeOf(parts, { line, problems });
      if (byId.has(node.id))
        problems.push({
          line,
          message: `${shown(node.id)} is there twice`,
          remedy: "give every node an id of its own",
        });
      byId.set(node.id, nodes.length);
      nodes.push(node);
    }
  }
  const edges = edgeRows.map(({ line, ends }): GraphEdge => {
    const [from = 0, to = 0] = ends.map((id) => {
      const node = byId.get(id);
      if (node === undefined)
        problems.push({
          line,
          message: `no node is called ${shown(id)}`,
          remedy: "name a node of the file",
        });
      return node ?? 0;
    });
    return { from, to, bytes: nodes[from]?.outputBytes ?? 0 };
  });
  if (nodes.length === 0 && problems.length === 0)
    problems.push({ line: 1, message: "there is no node", remedy: "give a PipeDream graph.txt" });
  if (problems.length > 0) return refuse(file, problems);
  const name = file.replace(/^.*\//, "").replace(/\.txt(\.gz)?$/, "");
  return checkedGraph({ name, nodes, edges });
}

function nodeOf(
  parts: readonly string[],
  { line, problems }: { readonly line: number; readonly problems: Problem[] },
): GraphNode {
  const [id = ""] = parts;
  const name = parts.slice(1, -1).join(SEPARATOR).trim();
  const fields = new Map(
    (parts.at(-1) ?? "").split(/,\s*/).map((field) => {
      const [key = "", value = ""] = field.split("=");
      return [key.trim(), value.trim()] as const;
    }),
  );
  const amount = (key: string): number => {
    const text = fields.get(key);
    const sum = text === undefined ? NaN : summed(text);
    if (Number.isFinite(sum) && sum >= 0) return sum;
    const message = `${shown(id)} has ${key} ${text === undefined ? "nowhere" : shown(text)}`;
    problems.push({
      line,
      message,
      remedy: `write ${key}=<number>, or [a; b] for several tensors`,
    });
    return 0;
  };
  const isInput = /^Input\d*$/.test(name);
  const forwardMs = amount("forward_compute_time");
  return {
    id,
    name,
    forwardMs: isInput ? 0 : forwardMs,
    backwardMs: amount("backward_compute_time"),
    parameterBytes: amount("parameter_size"),
    outputBytes: amount("activation_size"),
    isBackward: false,
    isAcceleratable: true,
  };
}

function summed(text: string): number {
  const parts = text.replace(/^\[(.*)\]$/, "$1").split(";");
  return parts.reduce((sum, part) => sum + (part.trim() === "" ? NaN : Number(part)), 0);
}
