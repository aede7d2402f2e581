/**
 * @file The paper's figures 6, 7 (right), 8, 9 and 12 as SVG from this run; `bench placement --plot` draws 7 (left).
 *
 * Figures 6 and 7 are means over the first n jobs of each play. Figure 8 counts work, GPU time at the pace of one cluster, so a GPU that waits for
 * a link is not used. Means over seeds.
 */

import { chartSvg, type Axis, type Series } from "../../simulator/report/chart.ts";
import type { JobOutcome } from "../../simulator/spiderflow/play.ts";
import { writeChart } from "../chart-file.ts";
import { mean } from "../statistics.ts";
import type { Ran } from "./case.ts";
import { OURS } from "./methods.ts";
import { PRODUCT } from "./product.ts";

type Rans = ReadonlyMap<string, Ran>;

export interface ScaleRans {
  readonly clusters: number;
  readonly rans: Rans;
}

const DRAWN = ["Opportunistic", "Lyra", "DT-FM", "MAST", "ILP", "SpinSearch + TPA", OURS];
const HOUR_MS = 3_600_000;
const POINTS = 12;
const MOMENTS = 160;

const throughputOf = ({ throughput }: JobOutcome): number => throughput;
const completionHours = ({ completionMs }: JobOutcome): number => completionMs / HOUR_MS;
const queuedHours = ({ queuedMs }: JobOutcome): number => queuedMs / HOUR_MS;

export function drawTestbed(dir: string, rans: Rans): void {
  const common = { rans, where: "eight servers" };
  write(dir, "figure-6-throughput", firstJobs({ ...common, label: "samples/s", of: throughputOf }));
  write(dir, "figure-6-jct", firstJobs({ ...common, label: "JCT, hours", of: completionHours }));
}

export function drawQueues(dir: string, what: string, rans: Rans): void {
  const drawing = firstJobs({ rans, where: what, label: "QT, hours", of: queuedHours });
  write(dir, `figure-7-queue-${fileName(what)}`, drawing);
}

const STEPS = ["Opportunistic", "+ SpinSearch", "SpinSearch + TPA", OURS, PRODUCT];
const STEP_TEXTS = ["baseline", "+ SpinSearch", "+ TPA", "ours + TPA", "the product"];

/** Against Opportunistic. */
export function drawBreakdown(dir: string, what: string, rans: Rans): void {
  const base = rans.get("Opportunistic");
  if (base === undefined) return;
  const line = (name: string, colour: number, of: (ran: Ran) => number): Series => ({
    name,
    colour,
    points: STEPS.flatMap((step, at) => {
      const own = rans.get(step);
      return own === undefined ? [] : [[at, of(own) / of(base)] as const];
    }),
  });
  const series = [
    line("QT", 0, ({ queuedMs }) => queuedMs),
    line("JCT", 1, ({ completionMs }) => completionMs),
  ];
  const x: Axis = {
    label: "step",
    from: 0,
    to: STEPS.length - 1,
    isCount: true,
    ticks: STEPS.map((_, at) => at),
    text: (at) => STEP_TEXTS[at] ?? "",
  };
  write(dir, `figure-9-${fileName(what)}`, {
    title: `${what}: QT and JCT, step by step`,
    x,
    label: "× Opportunistic",
    series,
  });
}

interface LargeRun {
  readonly rans: Rans;
  readonly fleetGpus: number;
}

export function drawOverTime(dir: string, trace: string, { rans, fleetGpus }: LargeRun): void {
  const endMs = Math.max(...[...rans.values()].map(({ makespanMs }) => makespanMs));
  const series = linesOf(rans, ({ plays }) => {
    const [jobs = []] = plays;
    return Array.from({ length: MOMENTS }, (_, at) => {
      const atMs = ((at + 0.5) * endMs) / MOMENTS;
      let gpus = 0;
      for (const { startMs, runMs, workGpuMs } of jobs)
        if (startMs <= atMs && atMs < startMs + runMs) gpus += workGpuMs / runMs;
      return [atMs / HOUR_MS, (100 * gpus) / fleetGpus] as const;
    });
  });
  write(dir, `figure-8-${fileName(trace)}`, {
    title: `Six clusters, ${trace}: GPUs that work, over time`,
    x: { label: "hours", from: 0, to: endMs / HOUR_MS, text: String },
    label: "utilisation, %",
    series,
  });
}

export function drawScales(dir: string, scales: readonly ScaleRans[]): void {
  const series = DRAWN.map((name, colour): Series => ({
    name,
    colour,
    points: scales.flatMap(({ clusters, rans }) => {
      const own = rans.get(name);
      return own === undefined ? [] : [[clusters, own.completionMs / HOUR_MS] as const];
    }),
  }));
  const counts = scales.map(({ clusters }) => clusters);
  const x: Axis = {
    label: "clusters",
    from: Math.min(...counts),
    to: Math.max(...counts),
    isLog: true,
    ticks: counts,
    text: String,
  };
  write(dir, "figure-12", { title: "Mean JCT by clusters", x, label: "JCT, hours", series });
}

interface Drawing {
  readonly title: string;
  readonly x: Axis;
  readonly label: string;
  readonly series: readonly Series[];
}

interface FirstJobs {
  readonly rans: Rans;
  readonly where: string;
  readonly label: string;
  readonly of: (job: JobOutcome) => number;
}

function firstJobs({ rans, where, label, of }: FirstJobs): Drawing {
  const jobs = Math.max(
    ...[...rans.values()].flatMap(({ plays }) => plays.map((own) => own.length)),
  );
  const counts = Array.from({ length: POINTS }, (_, at) => Math.ceil(((at + 1) * jobs) / POINTS));
  return {
    title: `${label} over the first jobs, ${where}`,
    x: { label: "jobs", from: 0, to: jobs, isCount: true, text: String },
    label,
    series: linesOf(rans, ({ plays }) =>
      counts.map((count) => [count, mean(plays.map((own) => mean(own.slice(0, count).map(of))))]),
    ),
  };
}

const linesOf = (rans: Rans, pointsOf: (ran: Ran) => Series["points"]): readonly Series[] =>
  DRAWN.flatMap((name, colour) => {
    const own = rans.get(name);
    return own === undefined ? [] : [{ name, colour, points: pointsOf(own) }];
  });

const fileName = (what: string): string => what.toLowerCase().replaceAll(/[^a-z0-9.]+/g, "-");

function write(dir: string, name: string, { title, x, label, series }: Drawing): void {
  const top = Math.max(1e-9, ...series.flatMap(({ points }) => points.map(([, y]) => y)));
  const svg = chartSvg({ title, x, y: { label, from: 0, to: top, text: String }, series });
  writeChart(dir, name, { title, svg, series });
}
