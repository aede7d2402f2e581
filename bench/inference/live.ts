/**
 * @file The plan that a served job gets for the GPUs of its lease, beside the one it got when only their number was known; both executed
 * on its buses as they are.
 *
 * Executed twice: by the simulated devices over draws of noise, and by those of `stand-in.ts`, whose copies share the buses piece by piece.
 * By count: equal GPUs with a bus each, and all parameters in place, which is the plan that jobs got. Beside it, reported, the same
 * from cold with two guesses about links. Five graphs on three hosts, all with GPUs that share a bus.
 */

import type { InferenceHost, PeerWay } from "../../domain/model/inference-host.ts";
import type { InferencePlan } from "../../domain/model/inference-plan.ts";
import type { OperatorGraph } from "../../domain/model/operator-graph.ts";
import { readInferenceGraph } from "../../cli/planning/inference-source.ts";
import { median } from "../../lib/median.ts";
import { planOf } from "../../planning/inference/decisions.ts";
import { execute, wireCapacity } from "../../planning/inference/executor.ts";
import type { PlanningProblem } from "../../planning/inference/problem.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { standIn } from "./stand-in.ts";
import { executedMs, hostNamed, problemFor, search, type MeasureOptions } from "./cells.ts";

/** Models by size, and profiles of others. */
const GRAPHS = [
  "GPT2-xl@1x32",
  "OpenLLaMA-3B@4x128",
  "data/model-graphs/msr/layers_bert24_inference.json.gz",
  "data/model-graphs/msr/operators_resnet50_inference.json.gz",
  "data/model-graphs/pipedream/gnmt.txt",
] as const;

/** GPUs of each host's lease, and the bus of each: `v100` and `p4d` as in data/hosts, `a6000` with two GPUs on one bus. */
const LEASES: readonly { readonly host: string; readonly gpus: readonly number[] }[] = [
  { host: "v100", gpus: [0, 1, 2, 3] },
  { host: "a6000", gpus: [0, 1, 2] },
  { host: "p4d.24xlarge", gpus: [0, 1, 2, 3] },
];

/** Of the stand-in: one thread must keep up with all wires, and with kernels of microseconds. */
const STAND_IN = { slowdown: 3, bytesFor: 256 };
/** The median of so many executions counts, after one that warms the thread up. */
const STAND_IN_RUNS = 5;

/** Of values between lanes, as lanes were planned. */
const LANE_GBS = 4;

interface LiveRow {
  readonly cell: string;
  readonly expectedMs: number;
  readonly ours: Latency;
  /** By supposition. */
  readonly byCount: readonly Latency[];
}

interface Latency {
  /** Mean over draws of noise. */
  readonly simulatedMs: number;
  /** In the host's milliseconds, as those of the stand-in are counted. */
  readonly standInMs: number;
}

export async function measureLive(
  options: MeasureOptions,
  say: (line: string) => void,
): Promise<readonly LiveRow[]> {
  const source = { cwd: packageRoot(), profiledOn: "V100" };
  const rows: LiveRow[] = [];
  for (const name of GRAPHS) {
    const graph = await readInferenceGraph(name, source);
    for (const { host: called, gpus } of LEASES) {
      say(`${graph.name} on ${called}`);
      const host = leased(hostNamed(called), gpus);
      const problem = problemFor(graph, host);
      const ours = search(problem, options);
      rows.push({
        cell: `${called} ${graph.name}`,
        expectedMs: ours.expectedMs,
        ours: latencyOf(problem, ours.plan, options),
        byCount: byCount(graph, problem, options),
      });
    }
  }
  return rows;
}

function latencyOf(
  problem: PlanningProblem,
  plan: InferencePlan,
  options: MeasureOptions,
): Latency {
  const capacity = wireCapacity(problem);
  const onStandIn = (): number =>
    execute(problem, plan, { devices: standIn({ capacity, ...STAND_IN }) }).latencyMs;
  onStandIn();
  const times = Array.from({ length: STAND_IN_RUNS }, onStandIn);
  return { simulatedMs: executedMs(problem, plan, options), standInMs: median(times) };
}

/** The first GPUs of a host; GPU1 and GPU3 of the A6000 server share a bus. */
function leased(host: InferenceHost, chosen: readonly number[]): InferenceHost {
  const gpus = chosen.flatMap((at) => host.gpus[at] ?? []);
  const busOf = gpus.map(({ bus }, at) => (host.name === "a6000" && at === 2 ? 0 : bus));
  return {
    ...host,
    gpus: gpus.map((gpu, at) => ({ ...gpu, bus: busOf[at] ?? 0 })),
    buses: host.buses.slice(0, new Set(busOf).size),
    peers: chosen.map((a) => chosen.flatMap((b) => host.peers[a]?.[b] ?? [])),
  };
}

/** Each guess is one for all hosts: who knows only the number of GPUs cannot choose by host. */
const SUPPOSED = [
  ["in place", { way: "lanes", isResident: true }],
  ["cold, no links", { way: "staged", isResident: false }],
  ["cold, all linked", { way: "nvlink", isResident: false }],
] as const;

type Supposition = (typeof SUPPOSED)[number][1];

function byCount(
  graph: OperatorGraph,
  problem: PlanningProblem,
  options: MeasureOptions,
): readonly Latency[] {
  return SUPPOSED.map(([, supposition]) => {
    const equal = equalGpus(problem.host, supposition);
    const resident = graph.parameters.flatMap((_, parameter) =>
      supposition.isResident ? equal.gpus.map((_gpu, gpu) => ({ parameter, gpu })) : [],
    );
    const { decisions } = search(problemFor(graph, equal, { resident }), options);
    return latencyOf(problem, planOf(problem, decisions), options);
  });
}

/** What is supposed of GPUs of which only the number and kind are known. */
function equalGpus(host: InferenceHost, { way }: Supposition): InferenceHost {
  const busGBs = Math.max(...host.buses.map((bus) => bus.busGBs));
  const links = host.peers.flat().flatMap((each) => (each.kind === "nvlink" ? each.peerGBs : []));
  const ways: Readonly<Record<Supposition["way"], PeerWay>> = {
    lanes: { kind: "nvlink", peerGBs: LANE_GBS },
    staged: { kind: "staged" },
    nvlink: { kind: "nvlink", peerGBs: Math.max(busGBs, ...links) },
  };
  return {
    ...host,
    gpus: host.gpus.map((gpu, at) => ({ ...gpu, bus: at })),
    buses: host.gpus.map(({ name }) => ({ name, busGBs })),
    peers: host.gpus.map((_, a) =>
      host.gpus.map((_other, b): PeerWay => (a === b ? { kind: "self" } : ways[way])),
    ),
  };
}

type Executed = keyof Latency;

export function liveBars(rows: readonly LiveRow[]): Bar[] {
  return [...barsOf(rows, "simulatedMs"), ...barsOf(rows, "standInMs")];
}

function barsOf(rows: readonly LiveRow[], by: Executed): Bar[] {
  const where = by === "standInMs" ? "on the stand-in, " : "";
  const total = rows.reduce((sum, { ours }) => sum + ours[by], 0);
  const off = rows.reduce((sum, row) => sum + Math.abs(row.expectedMs - row.ours[by]), 0);
  const worst = Math.max(...rows.map((row) => Math.abs(row.expectedMs / row.ours[by] - 1)));
  const behind = rows.filter(({ ours, byCount: theirs }) =>
    theirs.some((each) => each[by] < ours[by] * SAME[by]),
  );
  return [
    ...SUPPOSED.map(([name], at) => {
      const gains = rows.map((row) => (row.byCount[at]?.[by] ?? NaN) / row.ours[by]);
      return barOf({
        id: `${where}over the plan by count, ${name}`,
        unit: "×",
        target: at === 0 ? atLeast(1.2) : REPORTED,
        got: mean(gains),
        note: `mean of ${rows.length} cells, from ${Math.min(...gains).toFixed(2)} to ${Math.max(...gains).toFixed(2)}; executed on the buses as they are, ${where === "" ? "simulated" : "stood in for"}`,
      });
    }),
    barOf({
      id: `${where}cells in which a plan by count is faster`,
      unit: "cells",
      target: by === "standInMs" ? REPORTED : exactly(0),
      got: behind.length,
    }),
    barOf({
      id: `${where}expected against executed, by time`,
      unit: "%",
      target: atMost(10),
      got: (100 * off) / total,
      note: `all cells together; the worst alone ${(100 * worst).toFixed(1)} %`,
    }),
  ];
}

/** Plans that are equal but for draws of noise, and but for the moments at which pieces of copies meet. */
const SAME: Readonly<Record<Executed, number>> = { simulatedMs: 0.999, standInMs: 0.98 };

export const liveTable = (rows: readonly LiveRow[]): BenchTable => ({
  title:
    "A served model on the GPUs of its lease: by topology, and by their number (simulated, stand-in)",
  columns: ["host, model", "expected", "ours ms", ...SUPPOSED.map(([name]) => name)],
  rows: rows.map(({ cell, expectedMs, ours, byCount: theirs }) => [
    cell,
    expectedMs.toFixed(2),
    ...[ours, ...theirs].map(
      ({ simulatedMs, standInMs }) => `${simulatedMs.toFixed(2)}, ${standInMs.toFixed(2)}`,
    ),
  ]),
});
