/** @file Model graphs: PipeDream's and MSR's files, what they hold, and what is refused. */
import { readdirSync, readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { cycleOf, topologicalOrder, type ModelGraph } from "../../../domain/model/model-graph.ts";
import { parseMsrGraph } from "../../../domain/model/parse-msr-graph.ts";
import { parsePipeDream } from "../../../domain/model/parse-pipedream.ts";

const DIR = new URL("../../../data/model-graphs/", import.meta.url);

function graphOf(path: string): ModelGraph {
  const bytes = readFileSync(new URL(path, DIR));
  const text = (path.endsWith(".gz") ? gunzipSync(bytes) : bytes).toString("utf8");
  const read = path.startsWith("msr") ? parseMsrGraph(text, path) : parsePipeDream(text, path);
  if (read.kind === "refused") throw new Error(read.problems[0]?.message ?? "refused");
  return read.graph;
}

const FILES = ["msr", "pipedream"].flatMap((folder) =>
  readdirSync(new URL(folder, DIR)).map((file) => `${folder}/${file}`),
);

test.each(FILES)("%s is read, and has an order in which every edge goes forward", (file) => {
  const graph = graphOf(file);
  const order = topologicalOrder(graph) ?? [];
  expect(order).toHaveLength(graph.nodes.length);
  const places = new Map(order.map((node, place) => [node, place]));
  for (const { from, to } of graph.edges)
    expect(places.get(from) ?? NaN).toBeLessThan(places.get(to) ?? NaN);
});

test.each([
  { file: "msr/layers_bert24_inference.json.gz", wantNodes: 32, wantEdges: 55 },
  { file: "msr/operators_bert_l-3_inference.json.gz", wantNodes: 235, wantEdges: 250 },
  { file: "msr/operators_bert_l-6_training.json.gz", wantNodes: 1071, wantEdges: 1462 },
  { file: "pipedream/resnet50.txt", wantNodes: 177, wantEdges: 193 },
])("$file has $wantNodes nodes and $wantEdges edges", ({ file, wantNodes, wantEdges }) => {
  const graph = graphOf(file);
  expect(graph.nodes).toHaveLength(wantNodes);
  expect(graph.edges).toHaveLength(wantEdges);
});

test("vgg16's parameters are 553 MB, those of 138 million floats", () => {
  const bytes = graphOf("pipedream/vgg16.txt").nodes.reduce(
    (sum, node) => sum + node.parameterBytes,
    0,
  );
  expect(bytes / 4 / 1e6).toBeCloseTo(138.36, 1);
});

test("loading data is no time of the model, and lists of tensors are summed", () => {
  const alexnet = graphOf("pipedream/alexnet.txt");
  expect(alexnet.nodes.find(({ name }) => name === "Input")?.forwardMs).toBe(0);
  const lstm = graphOf("pipedream/gnmt.txt").nodes.find(({ name }) => name === "LSTM(2048, 1024)");
  expect(lstm?.outputBytes).toBe(6291456 + 2 * 131072);
});

test("a chain of 20,000 nodes has an order", () => {
  const node = { forwardMs: 1, backwardMs: 0, parameterBytes: 0, outputBytes: 0 };
  const nodes = Array.from({ length: 20_000 }, (_, at) => ({
    ...node,
    id: `n${at}`,
    name: "x",
    isBackward: false,
    isAcceleratable: true,
  }));
  const edges = nodes.slice(1).map((_, at) => ({ from: at, to: at + 1, bytes: 1 }));
  expect(topologicalOrder({ name: "chain", nodes, edges })).toHaveLength(20_000);
  expect(
    cycleOf({ name: "ring", nodes, edges: [...edges, { from: 19_999, to: 19_990, bytes: 1 }] }),
  ).toHaveLength(11);
});

describe("what is refused", () => {
  const node =
    "node1 -- ReLU -- forward_compute_time=1, backward_compute_time=1, activation_size=4, parameter_size=0";
  test.each([
    { text: "", want: /empty/ },
    { text: "hello", want: /neither a node nor an edge/ },
    { text: `${node}\n${node}`, want: /"node1" is there twice/ },
    { text: `${node}\n\tnode1 -- node7`, want: /no node is called "node7"/ },
    {
      text: node.replace("activation_size=4", "activation_size=big"),
      want: /activation_size "big"/,
    },
    { text: node.replace("parameter_size=0", ""), want: /parameter_size nowhere/ },
    {
      text: `${node}\n${node.replace("node1", "node2")}\n\tnode1 -- node2\n\tnode2 -- node1`,
      want: /circle: node/,
    },
  ])("a PipeDream profile: $want", ({ text, want }) => {
    const read = parsePipeDream(text, "graph.txt");
    expect(read.kind).toBe("refused");
    expect(read.kind === "refused" ? read.problems[0]?.message : "").toMatch(want);
  });

  const row = { id: 1, fpgaLatency: 1, cpuLatency: 2, size: 3 };
  test.each([
    { text: "{", want: /not JSON/ },
    { text: "[]", want: /nodes is nothing/ },
    {
      text: JSON.stringify({ nodes: [row, row], edges: [] }),
      want: /nodes\[1\]\.id: "1" is also the id of nodes\[0\]/,
    },
    {
      text: JSON.stringify({ nodes: [{ ...row, size: -1 }], edges: [] }),
      want: /nodes\[0\]\.size is -1/,
    },
    {
      text: JSON.stringify({ nodes: [row], edges: [{ sourceId: 1, destId: 2 }] }),
      want: /edges\[0\]\.destId: no node has the id "2"/,
    },
    {
      text: JSON.stringify({ nodes: [row], edges: [{ sourceId: 1, destId: 1 }] }),
      want: /circle: 1 → 1/,
    },
  ])("an MSR graph: $want", ({ text, want }) => {
    const read = parseMsrGraph(text, "graph.json");
    expect(read.kind).toBe("refused");
    expect(read.kind === "refused" ? read.problems[0]?.message : "").toMatch(want);
  });
});
