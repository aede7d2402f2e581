/**
 * @file The paper's figures 5 to 11 as SVG from this run: accuracy, GBE and loss by size of request, search times, ablations, test settings.
 */

import { busBwNearGBs } from "../../domain/bandwidth/nccl-run.ts";
import { chartSvg, type Axis, type Series } from "../../simulator/report/chart.ts";
import { writeChart, type ChartFile } from "../chart-file.ts";
import type { AccuracyFigure } from "./accuracy.ts";
import { PAPER_SAMPLES, type Compared } from "./compare.ts";
import { gbePercent, isCounted, type Judged } from "./protocol.ts";
import type { SearchTimes } from "./search-times.ts";
import type { TestedSetting } from "./tested-settings.ts";

const MAIN = [
  "ours",
  "Ideal-BP",
  "hybrid search",
  "Topo",
  "Default NUMA first",
  "Default by id",
  "Random",
];
const ABLATION = ["ours", "hybrid search", "EHA only", "PTS only"];

export function drawFigures(
  dir: string,
  byCluster: ReadonlyMap<string, readonly Compared[]>,
): void {
  for (const [cluster, compared] of byCluster) {
    const name = cluster.toLowerCase();
    writeChart(dir, `figure-5-${name}`, accuracyChart(cluster, compared));
    writeChart(
      dir,
      `figure-6-${name}`,
      requestChart(cluster, compared, { names: MAIN, of: gbePercent, what: "GBE, %" }),
    );
    const lossOf = (each: Judged): number => each.bestGbs - each.gbs;
    writeChart(
      dir,
      `figure-7-${name}`,
      requestChart(cluster, compared, { names: MAIN, of: lossOf, what: "loss, GB/s" }),
    );
    writeChart(
      dir,
      `figure-10-${name}`,
      requestChart(cluster, compared, { names: ABLATION, of: gbePercent, what: "GBE, %" }),
    );
  }
}

/** Figure 9: what the hierarchy is worth, by the error of each model. */
export function drawAblation(
  dir: string,
  cluster: string,
  figures: readonly AccuracyFigure[],
): void {
  const way = figures[0]?.training;
  const own = figures.filter(({ training }) => training === way);
  const series = [...new Set(own.map(({ model }) => model))].map((name, colour): Series => {
    const ofModel = own.filter(({ model }) => model === name);
    const points = [...new Set(ofModel.map(({ samples }) => samples))].map((samples) => {
      const values = ofModel.filter((each) => each.samples === samples);
      const sum = values.reduce((total, { mapePercent }) => total + mapePercent, 0);
      return [samples, sum / values.length] as const;
    });
    return { name, points: drawable(points), colour };
  });
  const title = `${cluster}: MAPE by samples`;
  const top = Math.max(1, ...series.flatMap(({ points }) => points.map(([, y]) => y)));
  const svg = chartSvg({
    title,
    x: { label: "samples", from: 0, to: 500, text: String },
    y: { label: "MAPE, %", from: 0, to: top, text: String },
    series,
  });
  writeChart(dir, `figure-9-${cluster.toLowerCase()}`, { title, svg, series });
}

/** Samples to each side. */
const DASH = 8;

/** One point alone as a dash, for a line through it has no length. */
function drawable(points: Series["points"]): Series["points"] {
  const [only, ...others] = points;
  if (only === undefined || others.length > 0) return points;
  const [x, y] = only;
  return [
    [x - DASH, y],
    [x + DASH, y],
  ];
}

/** Figure 8: processor time of a pick, and what of the paper's hybrid search is spent in the model. */
export function drawSearchTimes(dir: string, times: readonly SearchTimes[]): void {
  const lines = [
    ["ours", "oursMs"],
    ["hybrid search", "hybridMs"],
    ["EHA", "ehaMs"],
    ["PTS", "ptsMs"],
    ["prediction in the hybrid search", "predictionMs"],
  ] as const;
  const series = lines.map(([name, of], colour): Series => ({
    name,
    colour,
    points: times.map((each) => [each.gpus, Math.log10(Math.max(LEAST_MS, each[of]))]),
    isDashed: of === "predictionMs",
  }));
  const title = "Time of a pick by GPUs of the request";
  const most = Math.max(...series.flatMap(({ points }) => points.map(([, y]) => y)));
  const svg = chartSvg({
    title,
    x: { label: "GPUs of the request", from: 1, to: 32, isCount: true, text: String },
    y: { label: "ms of processor time", from: Math.log10(LEAST_MS), to: most, text: tenTo },
    series,
  });
  writeChart(dir, "figure-8", { title, svg, series });
}

/** Charts with a scale of powers have the exponents as places: even steps, each with its number. */
const tenTo = (place: number): string => String(Number((10 ** place).toPrecision(2)));
const twoTo = (place: number): string => String(Number((2 ** place).toPrecision(2)));

const LEAST_MS = 0.01;
const MIB = 1_048_576;
const USUAL_BYTES = 16 * MIB;

/** Figure 11: bandwidth by message size, and at 16 MiB by collective. */
export function drawTestedSettings(dir: string, settings: readonly TestedSetting[]): void {
  const bySize = settings
    .filter(({ op }) => op === "all_gather")
    .map(({ gpus, run }): Series => ({
      name: `${String(gpus)} GPUs`,
      colour: gpus - 2,
      points: run.rows.flatMap(({ bytes }) => {
        const gbs = busBwNearGBs(run, bytes);
        return gbs === undefined || bytes <= 0 ? [] : [[Math.log2(bytes / MIB), gbs] as const];
      }),
    }));
  const byCollective = [...new Set(settings.map(({ op }) => op))].map((op, colour): Series => ({
    name: op,
    colour,
    points: settings
      .filter((each) => each.op === op)
      .flatMap(({ gpus, run }) => {
        const gbs = busBwNearGBs(run, USUAL_BYTES);
        return gbs === undefined ? [] : [[gpus, gbs] as const];
      })
      .sort(([a], [b]) => a - b),
  }));
  const sizes = bySize.flatMap(({ points }) => points.map(([x]) => x));
  const sizeAxis: Axis = {
    label: "message, MiB",
    from: Math.min(...sizes),
    to: Math.max(...sizes),
    text: twoTo,
  };
  const gpuAxis: Axis = { label: "GPUs", from: 2, to: 8, isCount: true, text: String };
  for (const [name, title, x, series] of [
    ["figure-11a", "all_gather by message size, 2 to 8 A100 of one host", sizeAxis, bySize],
    ["figure-11b", "Collectives at 16 MiB by GPUs, A100 of one host", gpuAxis, byCollective],
  ] as const) {
    const most = Math.max(...series.flatMap(({ points }) => points.map(([, y]) => y)));
    const svg = chartSvg({
      title,
      x,
      y: { label: "bus bandwidth, GB/s", from: 0, to: most, text: String },
      series,
    });
    writeChart(dir, name, { title, svg, series });
  }
}

interface Target {
  readonly names: readonly string[];
  readonly of: (judged: Judged) => number;
  readonly what: string;
}

function requestChart(
  cluster: string,
  compared: readonly Compared[],
  { names, of, what }: Target,
): ChartFile {
  const way = compared[0]?.models[0]?.training;
  const isDrawn = ({ samples, training }: Compared["runs"][number]): boolean =>
    samples === 0 || (samples === PAPER_SAMPLES && training === way);
  const series = names.map((name, colour): Series => {
    const judged = compared.flatMap(({ runs }) =>
      runs
        .filter((run) => run.name === name && isDrawn(run))
        .flatMap((run) => run.judged.filter(isCounted)),
    );
    const bySize = new Map<number, number[]>();
    for (const each of judged) {
      const { gpus } = each.scenario;
      bySize.set(gpus, [...(bySize.get(gpus) ?? []), of(each)]);
    }
    const points = [...bySize]
      .sort(([a], [b]) => a - b)
      .map(
        ([gpus, values]) =>
          [gpus, values.reduce((sum, value) => sum + value, 0) / values.length] as const,
      );
    return { name, points, colour, isDashed: name === "Ideal-BP" };
  });
  const shown = series.filter(({ points }) => points.length > 0);
  const values = shown.flatMap(({ points }) => points.map(([, y]) => y));
  const title = `${cluster}: ${what} by GPUs of the request`;
  const isShare = what.startsWith("GBE");
  const svg = chartSvg({
    title,
    x: { label: "GPUs of the request", from: 2, to: 32, isCount: true, text: String },
    y: { label: what, from: 0, to: isShare ? 100 : Math.max(1, ...values), text: String },
    series: shown,
  });
  return { title, svg, series: shown };
}

function accuracyChart(cluster: string, compared: readonly Compared[]): ChartFile {
  const way = compared[0]?.models[0]?.training;
  const bySize = new Map<number, { r2: number; mape: number; count: number }>();
  for (const { models } of compared)
    for (const { name, samples, training, r2, mapePercent } of models) {
      if (name !== "ours" || training !== way) continue;
      const sum = bySize.get(samples) ?? { r2: 0, mape: 0, count: 0 };
      bySize.set(samples, { r2: sum.r2 + r2, mape: sum.mape + mapePercent, count: sum.count + 1 });
    }
  const points = [...bySize].sort(([a], [b]) => a - b);
  const series: readonly Series[] = [
    {
      name: "R², %",
      colour: 0,
      points: drawable(points.map(([n, { r2, count }]) => [n, (100 * r2) / count])),
    },
    {
      name: "MAPE, %",
      colour: 1,
      points: drawable(points.map(([n, { mape, count }]) => [n, mape / count])),
    },
  ];
  const title = `${cluster}: accuracy by samples`;
  const svg = chartSvg({
    title,
    x: { label: "samples", from: 0, to: 500, text: String },
    y: { label: "%", from: 0, to: 100, text: String },
    series,
  });
  return { title, svg, series };
}
