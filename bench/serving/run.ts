/**
 * @file Runs a split model and its rivals, compares their answers, then times them in turn; and holds what the planner expected of
 * several models, over one to three lanes, against what they took.
 */

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { planServing, type LaneCosts } from "../../activities/serving-planner.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { servingPlanLine, type ServingPlan } from "../../domain/model/serving-plan.ts";
import { median } from "../../lib/median.ts";
import { quantile } from "../../lib/quantile.ts";
import { readOnnxModel, type OnnxModel } from "../../models/onnx/onnx-model.ts";
import { branchySample } from "../../models/onnx/onnx-samples.ts";
import { openOnnx } from "../../models/onnx/onnx-session.ts";
import { measureLaneCosts } from "../../workers/serving/lane-costs.ts";
import { watchOthers } from "../../workers/serving/other-work.ts";
import { openSplit } from "../../workers/serving/split-model.ts";
import { atLeast, atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { coldRequests } from "./cold.ts";
import { graphs, type Graph } from "./graphs.ts";
import {
  feedsOf,
  overLanes,
  rivals,
  timedInTurn,
  type Tensors,
  type Timed,
  type Timing,
} from "./ways.ts";
import { upsets } from "./upsets.ts";

/** Idle time of a host whose requests come one by one. */
const APART_MS = 3;
/** Times that all expectations are held against what is measured, some seconds apart. */
const PASSES = 5;
/** Lanes for which expectations are looked at. */
const LANES = [1, 2, 3];

interface Part {
  readonly bars: readonly Bar[];
  readonly tables: readonly BenchTable[];
}

export async function runServing(request: BenchRequest): Promise<BenchAnswer> {
  const chosen = request.chosen("only");
  const isMeant = (part: string): boolean => chosen.length === 0 || chosen.includes(part);
  const graph = graphOf(request);
  const lanes = request.size("lanes");
  const costsOf = costsByLanes();
  const parts: Part[] = [];
  if (isMeant("speed")) {
    const planned = await planOf(graph, { lanes, request, costs: await costsOf(lanes) });
    request.say(servingPlanLine(planned.plan));
    parts.push(await speedOf(graph, planned, request));
  }
  if (isMeant("expected")) {
    const isGiven = request.text("model") !== undefined;
    const all = isGiven ? [graph] : graphs(graph.bytes, request.seed);
    parts.push(await expectations(all, request, costsOf));
  }
  if (isMeant("cold")) parts.push(await coldRequests(request));
  if (isMeant("upsets")) parts.push(await upsets(request));
  return {
    bars: parts.flatMap(({ bars }) => bars),
    tables: [
      ...parts.flatMap(({ tables }) => tables),
      ...(isMeant("speed") || isMeant("expected") ? [costsTable(await costsOf(lanes))] : []),
    ],
  };
}

function graphOf(request: BenchRequest): Graph {
  const file = request.text("model");
  if (file !== undefined) {
    return { name: basename(file), bytes: readFileSync(file), bindings: new Map() };
  }
  const [side, blocks] = [request.size("side"), request.size("blocks")];
  const [depth, width] = [request.size("depth"), request.size("width")];
  const bytes = branchySample({ side, blocks, depth, width, seed: request.seed });
  return { name: "branchy", bytes, bindings: new Map() };
}

interface Planned {
  readonly model: OnnxModel;
  readonly plan: ServingPlan;
}

async function planOf(
  { name, bytes, bindings }: Graph,
  {
    lanes,
    request,
    costs,
  }: { readonly lanes: number; readonly request: BenchRequest; readonly costs: LaneCosts },
): Promise<Planned> {
  const read = readOnnxModel(bytes, name);
  if (read.kind === "refused") throw new OrbweaverError("BAD_INPUT", read.message);
  request.say(`planning ${name} over ${lanes} lanes`);
  const planned = await planServing({ name, bytes }, lanes, {
    seed: request.seed,
    bindings,
    lanes: costs,
  });
  if (planned.kind === "refused") throw new OrbweaverError("BAD_INPUT", planned.message);
  return { model: read.model, plan: planned.plan };
}

/** Measured once for each number of lanes. */
function costsByLanes(): (lanes: number) => Promise<LaneCosts> {
  const known = new Map<number, Promise<LaneCosts>>();
  return (lanes) => {
    const costs = known.get(lanes) ?? measureLaneCosts(lanes);
    known.set(lanes, costs);
    return costs;
  };
}

async function speedOf(
  { name, bytes, bindings }: Graph,
  { model, plan }: Planned,
  request: BenchRequest,
): Promise<Part> {
  const feeds = feedsOf(model, bindings);
  const gap = await gapOf(bytes, { model, plan }, feeds);
  const ways = [overLanes(model, plan), ...rivals(bytes, plan.gpus)];
  const timing: Timing = {
    rounds: request.size("rounds"),
    warmUps: request.size("warm-ups"),
    pauseMs: 0,
    feeds,
    interrupted: request.interrupted,
  };
  request.say("timing, requests in a row");
  const others = watchOthers();
  const inRow = await timedInTurn(ways, timing);
  const taken = others();
  request.say(`timing, requests ${APART_MS} ms apart`);
  const apart = await timedInTurn(ways, { ...timing, pauseMs: APART_MS });
  const [, alone] = inRow;
  const share = (alone?.cpuMs ?? NaN) / (alone?.ms ?? []).reduce((sum, ms) => sum + ms, 0);
  const note =
    `against the fastest of the others, medians of ${timing.rounds}; ` +
    `one thread got ${(100 * share).toFixed(0)} % of a core, other processes took ${taken.toFixed(1)} cores`;
  return {
    bars: [
      barOf({ id: "serving-gap", unit: "max|a-b|/max|b|", target: atMost(1e-5), got: gap }),
      barOf({ id: "serving-speed-up", unit: "×", target: atLeast(1.2), got: speedUp(inRow), note }),
      barOf({
        id: "serving-speed-up-apart",
        unit: "×",
        target: REPORTED,
        got: speedUp(apart),
        note: `the same with ${APART_MS} ms of nothing before each request`,
      }),
      barOf({ id: "serving-parts", unit: "parts", target: REPORTED, got: plan.parts.length }),
    ],
    tables: [
      timesTable(`${name}, ${servingPlanLine(plan)}, requests in a row`, inRow),
      timesTable(`the same, requests ${APART_MS} ms apart`, apart),
    ],
  };
}

const offBy = (said: number, took: number): number => Math.abs(said - took) / took;

const speedUp = ([split, ...others]: readonly Timed[]): number =>
  Math.min(...others.map(({ ms }) => median(ms))) / median(split?.ms ?? []);

async function gapOf(
  bytes: Uint8Array,
  { model, plan }: Planned,
  feeds: () => Tensors,
): Promise<number> {
  const opened = await openSplit(model, plan);
  if (opened.kind === "refused") throw new OrbweaverError("BAD_INPUT", opened.message);
  const one = await openOnnx(bytes, { threads: 1 });
  const gap = largestGap(await one.run(feeds()), await opened.split.run(feeds()));
  await opened.split.close();
  await one.release();
  return gap;
}

function largestGap(want: Tensors, got: Tensors): number {
  let gap = 0;
  for (const [name, { data }] of want) {
    const other = got.get(name)?.data;
    let most = 0;
    let apart = 0;
    data.forEach((value: number | bigint, at: number) => {
      most = Math.max(most, Math.abs(Number(value)));
      apart = Math.max(apart, Math.abs(Number(value) - Number(other?.[at] ?? NaN)));
    });
    gap = Math.max(gap, apart / most);
  }
  return gap;
}

/** A model over so many lanes. */
interface Case {
  readonly graph: Graph;
  readonly planned: Planned;
  /** Of the whole model in one session: expected, and measured in each pass. */
  readonly expectedShare: number;
  readonly shares: number[];
  readonly ms: number[];
}

/**
 * Each model over one, two and three lanes, planned, then timed in several passes over all, each time in turn with the whole model in
 * one session: a process that takes a core for some seconds spoils one pass, not a case.
 */
async function expectations(
  all: readonly Graph[],
  request: BenchRequest,
  costsOf: (lanes: number) => Promise<LaneCosts>,
): Promise<Part> {
  const cases: Case[] = [];
  for (const graph of all) {
    for (const lanes of LANES) {
      const costs = await costsOf(lanes);
      const planned = await planOf(graph, { lanes, request, costs });
      const { expectedMs = NaN, wholeMs = NaN } = planned.plan;
      cases.push({
        graph,
        planned,
        expectedShare: expectedMs / (wholeMs - costs.requestMs),
        shares: [],
        ms: [],
      });
    }
  }
  for (let pass = 0; pass < PASSES; pass += 1) {
    request.say(`timing all of them, ${pass + 1} of ${PASSES}`);
    for (const { graph, planned, shares, ms } of cases) {
      const [alone] = rivals(graph.bytes, 1);
      const [split, whole] = await timedInTurn([overLanes(planned.model, planned.plan), alone], {
        rounds: Math.ceil(request.size("rounds") / PASSES),
        warmUps: request.size("warm-ups"),
        pauseMs: 0,
        feeds: feedsOf(planned.model, graph.bindings),
        interrupted: request.interrupted,
      });
      ms.push(...(split?.ms ?? []));
      shares.push(median(split?.ms ?? []) / median(whole?.ms ?? []));
    }
  }
  const off = cases.map(({ expectedShare, shares }) => offBy(expectedShare, median(shares)));
  const offAsSaid = cases.map(({ planned: { plan }, ms }) =>
    offBy(plan.expectedMs ?? NaN, median(ms)),
  );
  const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;
  const rows = cases.map(({ graph, planned: { plan }, ms, expectedShare, shares }, at) => [
    graph.name,
    String(plan.gpus),
    String(plan.parts.length),
    (plan.expectedMs ?? NaN).toFixed(2),
    median(ms).toFixed(2),
    percent(expectedShare),
    percent(median(shares)),
    percent(off[at] ?? NaN),
  ]);
  const bars: readonly Bar[] = [
    barOf({
      id: "serving-expected",
      unit: "share off",
      target: atMost(0.1),
      got: mean(off),
      note:
        `mean over ${off.length} cases of what the planner expected against what was measured, ` +
        `both as shares of the whole model in one session in the same moments; medians of ${PASSES} passes`,
    }),
    barOf({
      id: "serving-expected-worst",
      unit: "share off",
      target: REPORTED,
      got: Math.max(...off),
    }),
    barOf({
      id: "serving-expected-as-said",
      unit: "share off",
      target: REPORTED,
      got: mean(offAsSaid),
      note: "the same in ms, seconds apart: with what the machine's pace changed meanwhile",
    }),
  ];
  const columns = ["model", "lanes", "parts", "said ms", "took ms", "said", "took", "off"];
  return {
    bars,
    tables: [
      {
        title:
          "Expected and measured: a request in ms, and as a share of the whole model in one session",
        columns,
        rows,
      },
    ],
  };
}

function timesTable(title: string, all: readonly Timed[]): BenchTable {
  return {
    title,
    columns: ["way", "median ms", "quartile ms", "least ms", "CPU ms"],
    rows: all.map(({ name, ms, cpuMs }) => [
      name,
      median(ms).toFixed(2),
      quantile(ms, 0.25).toFixed(2),
      Math.min(...ms).toFixed(2),
      (cpuMs / ms.length).toFixed(2),
    ]),
  };
}

function costsTable(costs: LaneCosts): BenchTable {
  const us = (ms: number): string => (1_000 * ms).toFixed(0);
  return {
    title: "What lanes cost here, µs",
    columns: ["request", "part", "handing on", "a MiB of it", "beside others"],
    rows: [
      [
        us(costs.requestMs),
        us(costs.partMs),
        us(costs.handMs),
        us(costs.handMsPerByte * 2 ** 20),
        `${costs.besideFactor.toFixed(2)} ×`,
      ],
    ],
  };
}
