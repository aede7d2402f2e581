/** @file The left panel of the paper's figure 7 from this run: time over the number of decisions, one SVG for each fleet. */

import { chartSvg, type Series } from "../../simulator/report/chart.ts";
import { writeChart } from "../chart-file.ts";
import type { SpeedFound } from "./speed.ts";

const LEAST_SECONDS = 0.001;

export function drawSpeed(dir: string, found: readonly SpeedFound[]): void {
  for (const [at, { topology, timed }] of found.entries()) {
    const title = `${topology}: seconds of processor time by decisions`;
    const series = timed.map(({ name, cpuSeconds }, colour): Series => ({
      name,
      colour,
      points: [100, 1_000, 10_000].map((count) => [count, (cpuSeconds * count) / 10_000]),
    }));
    const top = Math.max(1, ...timed.map(({ cpuSeconds }) => cpuSeconds));
    const svg = chartSvg({
      title,
      x: { label: "decisions", from: 100, to: 10_000, isLog: true, text: String },
      y: { label: "s", from: LEAST_SECONDS, to: top, isLog: true, text: String },
      series,
    });
    writeChart(dir, `figure-7-time-${String(at + 1)}`, { title, svg, series });
  }
}
