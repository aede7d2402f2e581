/** @file The left panel of the paper's figure 7 from this run: time over the number of decisions, one SVG for each fleet. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chartSvg, legendHtml, type Series } from "../../simulator/report/chart.ts";
import { STYLE } from "../../simulator/report/style.ts";
import type { SpeedFound } from "./speed.ts";

const LEAST_SECONDS = 0.001;

export function drawSpeed(dir: string, found: readonly SpeedFound[]): void {
  mkdirSync(dir, { recursive: true });
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
    }).replace("<svg ", '<svg x="0" y="70" width="640" height="300" ');
    const legend = `<foreignObject x="0" y="0" width="640" height="70"><div xmlns="http://www.w3.org/1999/xhtml"><strong>${title}</strong>${legendHtml(series)}</div></foreignObject>`;
    const text = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 370"><style>${STYLE}</style>${legend}${svg}</svg>\n`;
    writeFileSync(join(dir, `figure-7-time-${String(at + 1)}.svg`), text);
  }
}
