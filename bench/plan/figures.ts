/** @file SpiderFlow's figures 1 and 10 as SVG from this run: the all-reduce's share and the throughput by clusters. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chartSvg, type Series } from "../../simulator/report/chart.ts";
import { STYLE } from "../../simulator/report/style.ts";
import type { Shares } from "./shares.ts";

export function drawPlanFigures(dir: string, points: Shares["points"]): void {
  mkdirSync(dir, { recursive: true });
  const x = { label: "clusters", from: 1, to: 4, text: String };
  const share: Series = {
    name: "all-reduce",
    points: points.map((point) => [point.clusters, 100 * point.share] as const),
    colour: 0,
  };
  write(
    dir,
    "figure-1",
    chartSvg({
      title: "All-reduce in a step",
      x,
      y: { label: "share, %", from: 0, to: 100, text: String },
      series: [share],
    }),
  );
  const rate: Series = {
    name: "GPT-2 1.3B",
    points: points.map((point) => [point.clusters, point.samplesPerS] as const),
    colour: 0,
  };
  const top = Math.ceil(Math.max(...points.map(({ samplesPerS }) => samplesPerS)));
  write(
    dir,
    "figure-10",
    chartSvg({
      title: "Throughput by clusters",
      x,
      y: { label: "samples/s", from: 0, to: top, text: String },
      series: [rate],
    }),
  );
}

function write(dir: string, name: string, svg: string): void {
  const inner = svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ');
  const text = svg.includes("xmlns") ? svg : inner;
  writeFileSync(join(dir, `${name}.svg`), text.replace(/>/, `><style>${STYLE}</style>`));
}
