/** @file Figures 1 to 5 of the bandit paper from this run, and the regret of every tuner, one SVG each. */

import { chartSvg, type ChartParts, type Series } from "../../simulator/report/chart.ts";
import { EMULATED_ARMS } from "../../simulator/collectives/emulated-arms.ts";
import {
  autoGap,
  emulatedCluster,
  type ClusterSpec,
} from "../../simulator/collectives/emulated-cluster.ts";
import { MIB, PAPER_1X8, PAPER_2X4_PROFILED } from "../../simulator/collectives/paper-clusters.ts";
import { writeChart } from "../chart-file.ts";
import { outcomeFor } from "./bars.ts";
import type { Outcome } from "./measure.ts";
import type { Scenario } from "./scenarios.ts";

const SIZE_TICKS = [32 / 1024, 0.25, 1, 4, 16, 64, 256].map((mib) => mib * MIB);

export function drawCollectives(
  dir: string,
  byScenario: ReadonlyMap<Scenario, readonly Outcome[]>,
): void {
  for (const hasOverlap of [false, true]) {
    const mode = hasOverlap ? "overlap" : "sequential";
    write(dir, `figure-1-${mode}`, armsChart(PAPER_1X8, hasOverlap, "over the fastest, %"));
    write(dir, `figure-3-${mode}`, armsChart(PAPER_2X4_PROFILED, hasOverlap, "ms"));
  }
  write(dir, "figure-2", gapChart());
  if (byScenario.size === 0) return;
  write(dir, "figure-4", mediansChart(byScenario));
  for (const [scenario, outcomes] of byScenario) {
    write(dir, `figure-5-${scenario.name}`, distributionChart(scenario, outcomes));
    write(dir, `regret-${scenario.name}`, regretChart(scenario, outcomes));
  }
}

const sizeText = (bytes: number): string =>
  bytes < MIB ? `${String(Math.round(bytes / 1024))} KB` : `${String(Math.round(bytes / MIB))} MB`;

const sizeAxis = (spec: ClusterSpec): ChartParts["x"] => {
  const sizes = spec.measured.map(({ bytes }) => bytes);
  const [from, to] = [Math.min(...sizes), Math.max(...sizes)];
  const ticks = SIZE_TICKS.filter((size) => size >= from && size <= to);
  return { label: "message", from, to, isLog: true, ticks, text: sizeText };
};

const sizesOf = (spec: ClusterSpec, hasOverlap: boolean): readonly number[] =>
  spec.measured.filter((cell) => cell.hasOverlap === hasOverlap).map(({ bytes }) => bytes);

/** Figures 1 and 3: each configuration by size; on one node over the fastest, because they lie within 3 %. */
function armsChart(spec: ClusterSpec, hasOverlap: boolean, unit: string): ChartParts {
  const cluster = emulatedCluster(spec);
  const isRelative = unit !== "ms";
  const series = EMULATED_ARMS.map((arm, colour): Series => {
    const points = sizesOf(spec, hasOverlap).map((bytes) => {
      const all = EMULATED_ARMS.map((one) => cluster.medianMs({ arm: one, bytes, hasOverlap }));
      const ms = cluster.medianMs({ arm, bytes, hasOverlap });
      return [bytes, isRelative ? 100 * (ms / Math.min(...all) - 1) : ms] as const;
    });
    return { name: arm, points, colour, isDashed: arm === "auto" };
  });
  const values = series.flatMap(({ points }) => points.map(([, y]) => y));
  const y = isRelative
    ? { label: unit, from: 0, to: Math.max(...values), text: String }
    : {
        label: unit,
        from: 5,
        to: Math.max(...values),
        isLog: true,
        ticks: [5, 10, 30, 100, 300, 1_000, 3_000],
        text: String,
      };
  const mode = hasOverlap ? "under overlap" : "sequential";
  return { title: `${spec.name}: configurations ${mode}`, x: sizeAxis(spec), y, series };
}

function gapChart(): ChartParts {
  const series = [PAPER_1X8, PAPER_2X4_PROFILED].map((spec, colour): Series => {
    const cluster = emulatedCluster(spec);
    const points = sizesOf(spec, false).map(
      (bytes) => [bytes, 100 * autoGap(cluster, { bytes, hasOverlap: false })] as const,
    );
    return { name: spec.name, points, colour };
  });
  return {
    title: "AUTO's gap to the fastest configuration, sequential",
    x: sizeAxis(PAPER_1X8),
    y: { label: "gap, %", from: 0, to: 60, text: String },
    series,
  };
}

const MAIN = ["AUTO", "paper's bandit", "ours", "oracle"] as const;

function mediansChart(byScenario: ReadonlyMap<Scenario, readonly Outcome[]>): ChartParts {
  const scenarios = [...byScenario.keys()];
  const series = MAIN.map((name, colour): Series => ({
    name,
    colour,
    isDashed: name === "oracle",
    points: scenarios.map((scenario, at) => [
      at,
      outcomeFor(byScenario.get(scenario) ?? [], name)?.exploitMedianMs ?? NaN,
    ]),
  }));
  return {
    title: "Median of the exploit phase",
    x: {
      label: "scenario",
      from: 0,
      to: Math.max(1, scenarios.length - 1),
      ticks: scenarios.map((_, at) => at),
      text: (at) => scenarios[at]?.name ?? "",
    },
    y: { label: "ms", from: 0, to: 800, text: String },
    series,
  };
}

/** Figure 5's boxes as distributions: which share of a job's iterations takes at most so long. */
function distributionChart({ name }: Scenario, outcomes: readonly Outcome[]): ChartParts {
  const series = MAIN.flatMap((player, colour): readonly Series[] => {
    const values = [...(outcomeFor(outcomes, player)?.sampleMs ?? [])].sort((a, b) => a - b);
    if (player === "oracle" || values.length === 0) return [];
    const points = values.map((ms, at) => [ms, (100 * (at + 1)) / values.length] as const);
    return [{ name: player, points, colour }];
  });
  const all = series.flatMap(({ points }) => points.map(([x]) => x)).sort((a, b) => a - b);
  const most = all[Math.floor(0.97 * (all.length - 1))] ?? 1;
  return {
    title: `${name}: iterations of one job`,
    x: { label: "ms", from: 0.9 * (all[0] ?? 0), to: 1.05 * most, text: String },
    y: { label: "% take at most", from: 0, to: 100, text: String },
    series,
  };
}

function regretChart({ name }: Scenario, outcomes: readonly Outcome[]): ChartParts {
  const ideal = outcomeFor(outcomes, "oracle")?.cumulativeMs ?? [];
  const shown = outcomes.filter(({ player }) => player !== "oracle");
  const series = shown.map(({ player, cumulativeMs }, colour): Series => ({
    name: player,
    colour,
    points: cumulativeMs.map((ms, at) => [at + 1, (ms - (ideal[at] ?? NaN)) / 1_000]),
  }));
  const main = ["ours", "paper's bandit", "UCB1", "Thompson", "ε-greedy, agreed"];
  const tops = series
    .filter((one) => main.includes(one.name))
    .map(({ points }) => points.at(-1)?.[1] ?? 0);
  return {
    title: `${name}: time lost against the best arm, mean`,
    x: { label: "iteration", from: 0, to: ideal.length, text: String },
    y: { label: "s", from: 0, to: 1.3 * Math.max(0.1, ...tops), text: String },
    series,
  };
}

const write = (dir: string, name: string, chart: ChartParts): void =>
  writeChart(dir, name, { title: chart.title, svg: chartSvg(chart), series: chart.series });
