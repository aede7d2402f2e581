/** @file `bench spiderflow`, part by part: the same jobs under each method, means over jobs and seeds, ratios as the paper has them. */

import { randomFrom } from "../../lib/random.ts";
import { bestClusters } from "../../scheduling/placement/best-clusters.ts";
import { DEFAULT_GENETIC, geneticClusters } from "../../scheduling/placement/genetic-clusters.ts";
import { lyra, mast, opportunistic } from "../../scheduling/placement/rival-clusters.ts";
import { spinSearch } from "../../scheduling/placement/spin-search.ts";
import { play, type Method, type Outcome } from "../../simulator/spiderflow/play.ts";
import { openStepClock } from "../../simulator/spiderflow/step-clock.ts";
import { trainingJobs, type WorkloadShape } from "../../simulator/spiderflow/workload.ts";
import { atLeast, atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import { isLender } from "../placement/entrants.ts";
import type { SpiderflowPart } from "../spiderflow.ts";
import { mean } from "../statistics.ts";
import {
  manyClusters,
  sixClusters,
  testbed,
  TRACES,
  traceJobs,
  type Scene,
  type TraceName,
} from "./scenes.ts";

const OURS = "ours + TPA";

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

/**
 * DT-FM has its own cost and arranges pieces for the degrees that it is given. The row after it has our objective and TPA's degrees as well: what a
 * genetic search could reach with both.
 */
function methodsFor({ fleet }: Scene): readonly Method[] {
  const isInference = fleet.gpus.map((_, cluster) => isLender(cluster));
  const largest = Math.max(...fleet.gpus);
  return [
    { name: "Opportunistic", policy: opportunistic, split: "plain" },
    { name: "Opportunistic + TPA", policy: opportunistic, split: "planned" },
    { name: "+ SpinSearch", policy: spinSearch, split: "plain" },
    { name: "+ ours", policy: bestClusters, split: "plain" },
    { name: "SpinSearch + TPA", policy: spinSearch, split: "planned" },
    { name: OURS, policy: bestClusters, split: "planned" },
    { name: "Lyra", policy: lyra({ isInference }), split: "plain" },
    {
      name: "DT-FM",
      policy: geneticClusters({ ...DEFAULT_GENETIC, objective: "communication" }),
      split: "arranged",
    },
    {
      name: "DT-FM + ours + TPA",
      policy: geneticClusters(DEFAULT_GENETIC),
      split: "planned",
    },
    { name: "MAST", policy: mast, split: "plain", most: largest },
  ];
}

/** The paper's, and what the paper itself had. */
const RIVALS = ["Opportunistic", "Lyra", "DT-FM", "MAST", "SpinSearch + TPA"] as const;

interface Ran {
  readonly name: string;
  readonly queuedMs: number;
  readonly completionMs: number;
  readonly throughput: number;
  readonly clusters: number;
  readonly makespanMs: number;
  readonly utilisation: number;
  /** Processor time of decisions ÷ time of jobs. */
  readonly overhead: number;
}

interface Case {
  readonly scene: Scene;
  readonly trace: TraceName;
  readonly jobs: number;
  readonly seed: number;
  readonly shape: Omit<WorkloadShape, "clusters" | "fleetGpus" | "largestCluster" | "cardGiB">;
}

async function runCase(each: Case, request: BenchRequest, what: string): Promise<readonly Ran[]> {
  const { scene, trace, seed } = each;
  const { gpus } = scene.fleet;
  const jobs = trainingJobs(
    traceJobs(trace, each.jobs),
    {
      ...each.shape,
      clusters: gpus.length,
      fleetGpus: gpus.reduce((sum, own) => sum + own, 0),
      largestCluster: Math.max(...gpus),
      cardGiB: scene.clock.cardGiB,
    },
    randomFrom(seed, `jobs of ${trace}`),
  );
  const clock = openStepClock(scene.clock);
  const rans: Ran[] = [];
  for (const method of methodsFor(scene)) {
    request.say(`spiderflow: ${what}, ${method.name}`);
    // Lets Ctrl-C and the progress line through.
    await new Promise((resolve) => setImmediate(resolve));
    request.interrupted.throwIfAborted();
    let decideMs = 0;
    const onDecision = (decide: () => void): void => {
      const startMs = performance.now();
      decide();
      decideMs += performance.now() - startMs;
    };
    rans.push(ranOf(play(jobs, method, { fleet: scene.fleet, clock, onDecision }), decideMs));
  }
  return rans;
}

function ranOf({ method, jobs, makespanMs, utilisation }: Outcome, decideMs: number): Ran {
  return {
    name: method,
    queuedMs: mean(jobs.map(({ queuedMs }) => queuedMs)),
    completionMs: mean(jobs.map(({ completionMs }) => completionMs)),
    throughput: mean(jobs.map(({ throughput }) => throughput)),
    clusters: mean(jobs.map(({ clusters }) => clusters)),
    makespanMs,
    utilisation,
    overhead: decideMs / jobs.reduce((sum, { runMs }) => sum + runMs, 0),
  };
}

/** Means over seeds, by method. */
function overSeeds(runs: readonly (readonly Ran[])[]): ReadonlyMap<string, Ran> {
  const names = runs[0]?.map(({ name }) => name) ?? [];
  return new Map(
    names.map((name, at) => {
      const own = runs.flatMap((run) => run[at] ?? []);
      const of = (value: (ran: Ran) => number): number => mean(own.map(value));
      return [
        name,
        {
          name,
          queuedMs: of((ran) => ran.queuedMs),
          completionMs: of((ran) => ran.completionMs),
          throughput: of((ran) => ran.throughput),
          clusters: of((ran) => ran.clusters),
          makespanMs: of((ran) => ran.makespanMs),
          utilisation: of((ran) => ran.utilisation),
          overhead: of((ran) => ran.overhead),
        },
      ];
    }),
  );
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
  const ours = rans.get(OURS);
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
    const ours = rans.get(OURS);
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
      ...[OURS, ...RIVALS].map((name) => hours(rans.get(name)?.completionMs)),
    ]);
  }
  return {
    bars,
    table: {
      title: `Mean JCT in hours over clusters of 56 GPUs, ${String(jobs)} jobs of Helios with 1 to 56 GPUs, load 1.0 on ${String(FULL_AT)} clusters`,
      columns: ["CLUSTERS", OURS, ...RIVALS],
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
