/** @file Bars and the table of the paper's 48 cells: the cost model's acceptance, the speed-ups, the estimate's error, planning times. */

import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import type { Measured } from "./cells.ts";

export const PAPER = Object.freeze({
  ours: { mean: 2.28, max: 2.96 },
  deepPlan: { mean: 1.93, max: 2.14 },
  efficientMip: { mean: 1.16, max: 1.62 },
  estimateErrorPercent: 2.97,
  p4d: 3.7,
});

/** Two plans whose latencies differ by less are taken as equal. */
const EQUAL = 1e-3;

type Contender = "oursMs" | "overlapMs" | "deepPlanMs" | "efficientMipMs";

export const speedUps = (cells: readonly Measured[], of: Contender): number[] =>
  cells.flatMap((cell) => {
    const ms = cell[of];
    return cell.baseMs === undefined || ms === undefined ? [] : [cell.baseMs / ms];
  });

/** Rivals that are ahead of ours in a cell. */
export function rivalsAhead(cell: Measured): string[] {
  const limit = cell.oursMs * (1 - EQUAL);
  const rivals: readonly (readonly [string, number | undefined])[] = [
    ["one GPU", cell.baseMs],
    ["one GPU, overlapped", cell.overlapMs],
    ["DeepPlan", cell.deepPlanMs],
    ["EfficientMIP", cell.efficientMipMs],
  ];
  return rivals.flatMap(([name, ms]) => (ms !== undefined && ms < limit ? [name] : []));
}

const geometric = (values: readonly number[]): number =>
  Math.exp(mean(values.map((value) => Math.log(value))));

export const errorPercent = ({ expectedMs, oursMs }: Measured): number =>
  100 * Math.abs(expectedMs / oursMs - 1);

export function compareBars(cells: readonly Measured[]): Bar[] {
  const v100 = cells.filter(({ host }) => host === "v100");
  const ours = speedUps(cells, "oursMs");
  const deviation = (got: number, paper: number): number => 100 * Math.abs(got / paper - 1);
  const rival = (
    id: string,
    of: "deepPlanMs" | "efficientMipMs",
    paper: { mean: number; max: number },
  ): Bar[] => {
    const got = speedUps(cells, of);
    const note = (what: string, figure: number): string =>
      `${what} ${figure.toFixed(3)} × over one GPU`;
    const figures = [
      ["mean", mean(got), paper.mean],
      ["max", Math.max(...got), paper.max],
    ] as const;
    return figures.map(([what, figure, published]) =>
      barOf({
        id: `${id} ${what} off the paper's`,
        unit: "%",
        target: atMost(15),
        got: deviation(figure, published),
        note: `${note(what, figure)}; the paper has ${published}`,
      }),
    );
  };
  const behind = cells.flatMap((cell) => rivalsAhead(cell).map((name) => `${cell.cell}: ${name}`));
  const errors = cells.map(errorPercent);
  const timesOf = (model: string): readonly Measured[] =>
    cells.filter((cell) => cell.model === model && cell.host === "v100");
  const planTime = (model: string, targetS: number): Bar => {
    const slowest = [...timesOf(model)].sort((a, b) => b.planCpuMs - a.planCpuMs)[0];
    return barOf({
      id: `plan ${model} on 4 GPUs`,
      unit: "s",
      target: atMost(targetS),
      got: slowest === undefined ? undefined : slowest.planCpuMs / 1e3,
      note: `CPU time, slowest shape; ${((slowest?.planWallMs ?? 0) / 1e3).toFixed(1)} s by the wall clock`,
    });
  };
  return [
    barOf({
      id: "copies over kernels on a V100, least",
      unit: "×",
      target: atLeast(1),
      got: Math.min(...v100.map(({ copyMs, kernelMs }) => copyMs / kernelMs)),
      note: "acceptance of the cost model (paper §2.1), all models and shapes",
    }),
    ...rival("DeepPlan", "deepPlanMs", PAPER.deepPlan),
    ...rival("EfficientMIP", "efficientMipMs", PAPER.efficientMip),
    barOf({
      id: "speed-up, mean",
      unit: "×",
      paper: PAPER.ours.mean,
      target: atLeast(PAPER.ours.mean),
      got: mean(ours),
      note: `over ${ours.length} cells; geometric mean ${geometric(ours).toFixed(3)}`,
    }),
    barOf({
      id: "speed-up, max",
      unit: "×",
      paper: PAPER.ours.max,
      target: atLeast(PAPER.ours.max),
      got: Math.max(...ours),
    }),
    barOf({
      id: "cells behind a rival",
      unit: "cells",
      target: exactly(0),
      got: behind.length,
      note: behind.length === 0 ? "within 0.1 % is equal" : behind.join("; "),
    }),
    barOf({
      id: "estimate off the executed, mean",
      unit: "%",
      paper: PAPER.estimateErrorPercent,
      target: atMost(3),
      got: mean(errors),
      note: `worst ${Math.max(...errors).toFixed(2)} %`,
    }),
    barOf({
      id: "latency over the lower bound, mean",
      unit: "×",
      target: REPORTED,
      got: mean(cells.map(({ oursMs, bounds }) => oursMs / bounds.lowerMs)),
    }),
    barOf({
      id: "memory at the fullest moment, most",
      unit: "%",
      target: atMost(100),
      got: 100 * Math.max(...cells.map(({ memoryShare }) => memoryShare)),
    }),
    planTime("GPT2-xl", 10),
    planTime("OpenLLaMA-7B", 60),
  ];
}

export function compareTable(title: string, cells: readonly Measured[]): BenchTable {
  const over = (cell: Measured, ms: number | undefined): string =>
    ms === undefined ? "-" : cell.baseMs === undefined ? "OOM" : (cell.baseMs / ms).toFixed(2);
  return {
    title,
    columns: [
      "cell",
      "base ms",
      "ours",
      "overlap",
      "DeepPlan",
      "Eff.MIP",
      "(crit.path)",
      "(bound)",
    ],
    rows: cells.map((cell) => [
      cell.cell,
      cell.baseMs?.toFixed(0) ?? "OOM",
      over(cell, cell.oursMs),
      over(cell, cell.overlapMs),
      over(cell, cell.deepPlanMs),
      over(cell, cell.efficientMipMs),
      over(cell, cell.bounds.criticalPathMs),
      over(cell, cell.bounds.lowerMs),
    ]),
  };
}
