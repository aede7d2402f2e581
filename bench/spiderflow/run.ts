/** @file `bench spiderflow`, part by part: the same jobs under each method, means over jobs and seeds, ratios as the paper has them. */

import { atLeast, atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { SpiderflowPart } from "../spiderflow.ts";
import { overSeeds, runCase, type Case, type Ran } from "./case.ts";
import {
  drawBreakdown,
  drawOverTime,
  drawQueues,
  drawScales,
  drawTestbed,
  type ScaleRans,
} from "./figures.ts";
import { OURS, OURS_AT_ONCE, RIVALS } from "./methods.ts";
import { manyClusters, sixClusters, testbed, TRACES, type TraceName } from "./scenes.ts";

export async function runSpiderflow(request: BenchRequest): Promise<BenchAnswer> {
  const parts = new Set(request.chosen("only"));
  const isChosen = (part: SpiderflowPart): boolean => parts.has(part);
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const add = (answer: { readonly bars: readonly Bar[]; readonly table: BenchTable }): void => {
    bars.push(...answer.bars);
    tables.push(answer.table);
  };
  if (isChosen("breakdown"))
    for (const trace of TRACES)
      for (const load of request.chosen("loads")) add(await breakdown(trace, load, request));
  if (isChosen("testbed")) add(await onTestbed(request));
  if (isChosen("large")) for (const trace of TRACES) add(await onSixClusters(trace, request));
  if (isChosen("scaling")) add(await onManyClusters(request));
  return { bars, tables };
}

const seedsOf = (request: BenchRequest): readonly number[] =>
  Array.from({ length: request.size("seeds") }, (_, at) => request.seed + at);

const beyondOf = (request: BenchRequest): number => request.size("beyond") / 100;

const PAPER_BREAKDOWN = {
  Philly: { spin: [0.82, 0.87], end: [0.73, 0.79] },
  Helios: { spin: [0.79, 0.84], end: [0.71, 0.78] },
} as const;

async function breakdown(trace: TraceName, loadText: string, request: BenchRequest) {
  const load = Number(loadText);
  const what = `${trace} at load ${loadText}`;
  const runs: (readonly Ran[])[] = [];
  for (const seed of seedsOf(request)) {
    const shape = { beyondShare: beyondOf(request), furthest: 12, load };
    const scene = testbed(seed);
    runs.push(
      await runCase({ scene, trace, jobs: request.size("jobs"), seed, shape }, request, what),
    );
  }
  const rans = overSeeds(runs);
  if (request.plotDir !== undefined) {
    drawQueues(request.plotDir, what, rans);
    drawBreakdown(request.plotDir, what, rans);
  }
  const base = rans.get("Opportunistic");
  const ratio = (name: string, of: (ran: Ran) => number): number | undefined => {
    const own = rans.get(name);
    return own === undefined || base === undefined ? undefined : of(own) / of(base);
  };
  const queued = ({ queuedMs }: Ran): number => queuedMs;
  const completed = ({ completionMs }: Ran): number => completionMs;
  const paper = PAPER_BREAKDOWN[trace];
  const bar = (id: string, name: string, at: 0 | 1, limit?: number): Bar =>
    barOf({
      id: `${what}: ${id}`,
      unit: "×",
      wish: limit === undefined ? REPORTED : atMost(limit),
      got: ratio(name, at === 0 ? queued : completed),
      paper: (limit === undefined ? paper.spin : paper.end)[at],
    });
  return {
    bars: [
      bar("QT + SpinSearch", "+ SpinSearch", 0),
      bar("JCT + SpinSearch", "+ SpinSearch", 1),
      bar("QT ours", OURS, 0, 0.7),
      bar("JCT ours", OURS, 1, 0.75),
    ],
    table: tableOf(
      `${what}: 8 clusters of 1 to 4 GPUs, ${String(request.size("beyond"))} % of the jobs ask for 5 to 12 GPUs, ${String(runs.length)} seeds`,
      rans,
      base,
    ),
  };
}

async function onTestbed(request: BenchRequest) {
  const runs: (readonly Ran[])[] = [];
  for (const seed of seedsOf(request)) {
    const shape = { beyondShare: beyondOf(request), furthest: 12, load: 1 };
    const jobs = request.size("testbed-jobs");
    const each: Case = { scene: testbed(seed), trace: "Philly", jobs, seed, shape };
    runs.push(await runCase(each, request, "testbed"));
  }
  const rans = overSeeds(runs);
  if (request.plotDir !== undefined) drawTestbed(request.plotDir, rans);
  const ours = rans.get(OURS);
  // Figure 6 has these three: MAST cannot run a gang above a cluster.
  const paperRivals = ["Opportunistic", "Lyra", "DT-FM"];
  const ratios = paperRivals.flatMap((name): Bar[] => {
    const rival = rans.get(name);
    if (rival === undefined || ours === undefined) return [];
    return [
      barOf({
        id: `testbed: throughput against ${name}`,
        unit: "×",
        wish: atLeast(1.25),
        got: ours.throughput / rival.throughput,
        paper: 1.25,
      }),
      barOf({
        id: `testbed: JCT of ${name}`,
        unit: "×",
        wish: atLeast(1.3),
        got: rival.completionMs / ours.completionMs,
        paper: 1.3,
      }),
    ];
  });
  return {
    bars: [
      ...ratios,
      barOf({
        id: "testbed: overhead of decisions",
        unit: "% of job time",
        wish: atMost(1),
        got: ours === undefined ? undefined : 100 * ours.overhead,
        paper: 1,
      }),
    ],
    table: tableOf(
      `8 servers with 16 GPUs, ${String(request.size("testbed-jobs"))} jobs at load 1.0, ${String(runs.length)} seeds`,
      rans,
      rans.get("Opportunistic"),
    ),
  };
}

async function onSixClusters(trace: TraceName, request: BenchRequest) {
  const shape = { beyondShare: 0, furthest: 256, load: 1 };
  const jobs = request.size("large-jobs");
  const each: Case = { scene: sixClusters(), trace, jobs, seed: request.seed, shape };
  const rans = overSeeds([await runCase(each, request, `six clusters, ${trace}`)]);
  if (request.plotDir !== undefined)
    drawOverTime(request.plotDir, trace, { rans, fleetGpus: 6 * 512 });
  const ours = rans.get(OURS_AT_ONCE);
  const rivals = RIVALS.flatMap((name) => rans.get(name) ?? []);
  return {
    bars: [
      barOf({
        id: `six clusters, ${trace}: end of all jobs`,
        unit: "× first rival",
        wish: atMost(1),
        got:
          ours === undefined
            ? undefined
            : ours.makespanMs / Math.min(...rivals.map(({ makespanMs }) => makespanMs)),
      }),
      barOf({
        id: `six clusters, ${trace}: utilisation`,
        unit: "× best rival",
        wish: atLeast(1),
        got:
          ours === undefined
            ? undefined
            : ours.utilisation / Math.max(...rivals.map(({ utilisation }) => utilisation)),
      }),
      barOf({
        id: `six clusters, ${trace}: mean JCT`,
        unit: "× best rival",
        wish: REPORTED,
        got:
          ours === undefined
            ? undefined
            : ours.completionMs / Math.min(...rivals.map(({ completionMs }) => completionMs)),
      }),
    ],
    table: tableOf(
      `Six clusters of 512 GPUs at 5 Gb/s, ${String(jobs)} jobs of ${trace} with 1 to 256 GPUs at load 1.0: no job exceeds a cluster`,
      rans,
      rans.get("Opportunistic"),
    ),
  };
}

const SCALES = [1, 4, 16, 64] as const;
/** Clusters at which the offered load is 1. */
const FULL_AT = 4;
/** A job's completion is a sum of floats. */
const TIED = 1 + 1e-9;

async function onManyClusters(request: BenchRequest) {
  const jobs = request.size("scaling-jobs");
  const { seed } = request;
  const bars: Bar[] = [];
  const rows: (readonly string[])[] = [];
  const found: ScaleRans[] = [];
  for (const clusters of SCALES) {
    // The same jobs at the same times at each scale: the load falls as clusters are added.
    const each: Case = {
      scene: manyClusters(clusters, seed),
      trace: "Helios",
      jobs,
      seed,
      shape: { beyondShare: 0, furthest: 56, load: FULL_AT / clusters },
    };
    const rans = overSeeds([await runCase(each, request, `${String(clusters)} clusters`)]);
    found.push({ clusters, rans });
    const ours = rans.get(OURS_AT_ONCE);
    const rivals = RIVALS.flatMap((name) => rans.get(name) ?? []);
    const best = Math.min(...rivals.map(({ completionMs }) => completionMs));
    bars.push(
      barOf({
        id: `${String(clusters)} clusters: mean JCT`,
        unit: "× best rival",
        wish: atMost(TIED),
        got: ours === undefined ? undefined : ours.completionMs / best,
      }),
    );
    rows.push([
      String(clusters),
      ...[OURS_AT_ONCE, ...RIVALS].map((name) => hours(rans.get(name)?.completionMs)),
    ]);
  }
  if (request.plotDir !== undefined) drawScales(request.plotDir, found);
  return {
    bars,
    table: {
      title: `Mean JCT in hours over clusters of 56 GPUs, ${String(jobs)} jobs of Helios with 1 to 56 GPUs, load 1.0 on ${String(FULL_AT)} clusters`,
      columns: ["CLUSTERS", OURS_AT_ONCE, ...RIVALS],
      rows,
    },
  };
}

const hours = (ms: number | undefined): string =>
  ms === undefined ? "-" : (ms / 3.6e6).toFixed(2);

function tableOf(title: string, rans: ReadonlyMap<string, Ran>, base: Ran | undefined): BenchTable {
  return {
    title: `${title}. Arrivals and durations are the trace's, models (NewWorkload) and GPUs are drawn; QT and JCT against Opportunistic`,
    columns: ["METHOD", "QT H", "×", "JCT H", "×", "SAMPLES/S", "CLUSTERS", "END H", "USE"],
    rows: [...rans.values()].map((ran) => [
      ran.name,
      hours(ran.queuedMs),
      base === undefined ? "-" : (ran.queuedMs / base.queuedMs).toFixed(2),
      hours(ran.completionMs),
      base === undefined ? "-" : (ran.completionMs / base.completionMs).toFixed(2),
      ran.throughput.toFixed(1),
      ran.clusters.toFixed(2),
      hours(ran.makespanMs),
      `${(100 * ran.utilisation).toFixed(0)} %`,
    ]),
  };
}
