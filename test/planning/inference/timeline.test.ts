/** @file Timelines: the lanes, times and names of a Chrome trace and of an SVG. */

import { expect, it } from "vitest";
import { planOf } from "../../../planning/inference/decisions.ts";
import { execute, type Span } from "../../../planning/inference/executor.ts";
import { deepPlanDecisions } from "../../../planning/inference/rivals.ts";
import { chromeTrace, timelineSvg } from "../../../planning/inference/timeline.ts";
import { tinyGraph, tinyHost, tinyProblem } from "./problems.ts";

const host = tinyHost({ buses: [0, 1] });
const spans: readonly Span[] = [
  { lane: { kind: "link", index: 1, to: 0 }, name: "w1", startMs: 1, endMs: 1.5 },
  { lane: { kind: "bus", index: 1 }, name: "w1", startMs: 0, endMs: 1 },
  { lane: { kind: "gpu", index: 0 }, name: "a & b", startMs: 1.5, endMs: 4 },
];

it("a trace names its lanes, GPUs first, then buses and links, and counts microseconds", () => {
  const trace: unknown = JSON.parse(chromeTrace(host, spans));
  const lanes = ["GPU0", "bus1", "GPU1 → GPU0"].map((name, tid) => ({
    ph: "M",
    name: "thread_name",
    pid: 1,
    tid,
    args: { name },
  }));
  const traceEvents = [
    ...lanes,
    { ph: "X", name: "w1", cat: "link", pid: 1, tid: 2, ts: 1000, dur: 500 },
    { ph: "X", name: "w1", cat: "bus", pid: 1, tid: 1, ts: 0, dur: 1000 },
    { ph: "X", name: "a & b", cat: "gpu", pid: 1, tid: 0, ts: 1500, dur: 2500 },
  ];
  expect(trace).toEqual({ displayTimeUnit: "ms", traceEvents });
});

it("a picture has a bar for each span, as wide as it is long, and its text is escaped", () => {
  const svg = timelineSvg(host, spans, "a < b");
  const widths = [...svg.matchAll(/<rect x="([\d.]+)" y="\d+" width="([\d.]+)"/g)].map(
    ([, x, width]) => [Number(x), Number(width)],
  );
  // 960 wide, 110 before the bars and 24 behind them: 206.5 a millisecond.
  expect(widths).toEqual([
    [316.5, 103.25],
    [110, 206.5],
    [419.75, 516.25],
  ]);
  for (const text of ["a &lt; b, 4.00 ms", "a &amp; b: 1.500 to 4.000 ms", ">4 ms</text>"])
    expect(svg).toContain(text);
  expect(svg).not.toContain("bus0");
});

it("a trace of nothing is empty, and a picture of it has no bars", () => {
  const trace: unknown = JSON.parse(chromeTrace(host, []));
  expect(trace).toEqual({ displayTimeUnit: "ms", traceEvents: [] });
  expect(timelineSvg(host, [], "none")).toContain(">0 ms</text>");
  expect(timelineSvg(host, [], "none").match(/<rect/g)).toHaveLength(1);
});

it("an executed plan has a lane for each GPU, bus and link that it uses", () => {
  const graph = tinyGraph(
    [0, 1].map((at) => ({ kernelMs: 1, parameters: [at], inputs: at === 0 ? [] : [at - 1] })),
    [10, 10],
  );
  const problem = tinyProblem(graph, host);
  const decisions = deepPlanDecisions(problem);
  if (decisions === undefined) throw new Error("no second bus");
  const { spans: executed } = execute(problem, planOf(problem, decisions));
  const trace: unknown = JSON.parse(chromeTrace(host, executed));
  expect(trace).toHaveProperty("traceEvents[0].ph", "M");
  const svg = timelineSvg(host, executed, "a < b");
  for (const name of ["GPU1", "bus0", "bus1", "→", "a &lt; b"]) expect(svg).toContain(name);
});
