/** @file SpiderFlow's figures 1, 10 and 11 as SVG from this run: the all-reduce's share, the throughput, and what a step is made of, by clusters. */

import { barsSvg, type BarGroup } from "../bars-figure.ts";
import { writeFigure } from "../chart-file.ts";
import type { Shares } from "./shares.ts";

/** The parts of a step that a data-parallel job has, as figure 11 names its operators. */
const OPERATORS = [
  { name: "forward, backward", key: "computeMs" },
  { name: "all-reduce", key: "reduceMs" },
  { name: "update", key: "updateMs" },
] as const;

export function drawPlanFigures(dir: string, points: Shares["points"]): void {
  const configurations = points.map(({ clusters }) =>
    clusters === 1 ? "1 cluster" : `${clusters} clusters`,
  );
  const oneBar = (of: (point: Shares["points"][number]) => number): readonly BarGroup[] =>
    points.map((point, at) => ({ name: configurations[at] ?? "", values: [of(point)] }));
  write(dir, "figure-1", {
    title: "All-reduce in a step of GPT-2 1.3B on 8 V100",
    label: "share of the step, %",
    top: 100,
    series: ["all-reduce"],
    groups: oneBar(({ share }) => 100 * share),
  });
  write(dir, "figure-10", {
    title: "Throughput of GPT-2 1.3B on 8 V100",
    label: "samples/s",
    series: ["samples/s"],
    groups: oneBar(({ samplesPerS }) => samplesPerS),
  });
  write(dir, "figure-11", {
    title: "Execution time of operators, GPT-2 1.3B on 8 V100",
    label: "seconds of a step",
    series: configurations,
    groups: OPERATORS.map(({ name, key }) => ({
      name,
      values: points.map(({ parts }) => parts[key] / 1000),
    })),
  });
}

const write = (dir: string, name: string, figure: Parameters<typeof barsSvg>[0]): void => {
  writeFigure(dir, `${name}.svg`, barsSvg(figure));
};
