/**
 * @file The A6000 server with every way in which its three GPUs can share PCIe buses, beside EfficientMIP in the same layout; FP32 and TF32.
 *
 * The paper does not say which GPUs of that server share a bus (decision 31), and speed-ups hang on it. So the paper's mean and maximum over
 * all servers are judged with the layout that is worst for ours.
 */

import type { InferenceHost } from "../../domain/model/inference-host.ts";
import { KNOWN_DEVICES } from "../../domain/model/inference-device.ts";
import { PAPER_MODELS, PAPER_SHAPES, paperGraph } from "../../planning/inference/paper-models.ts";
import { atLeast, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import {
  cellName,
  hostNamed,
  measure,
  paperCells,
  problemFor,
  type Measured,
  type MeasureOptions,
} from "./cells.ts";
import { PAPER, rivalsAhead, speedUps } from "./compare-bars.ts";

/** Buses by GPU: GPUs with the same number share one. The first is that of data/hosts/a6000.yaml. */
const LAYOUTS: readonly (readonly [name: string, busOf: readonly number[]])[] = [
  ["a bus each", [0, 1, 2]],
  ["GPU1 and GPU2 on one bus", [0, 0, 1]],
  ["GPU1 and GPU3 on one bus", [0, 1, 0]],
  ["GPU2 and GPU3 on one bus", [0, 1, 1]],
  ["all on one bus", [0, 0, 0]],
];
const PRECISIONS: readonly (readonly [name: string, device: string])[] = [
  ["FP32", "A6000"],
  ["TF32", "A6000-TF32"],
];

/** How far EfficientMIP may be from its published best in a layout that can be the paper's. */
const ACCEPTED = 0.15;

interface Layout {
  readonly name: string;
  readonly precision: string;
  readonly cells: readonly Measured[];
}

export interface Layouts {
  readonly a6000: readonly Layout[];
  /** Cells of the paper's other two servers. */
  readonly others: readonly Measured[];
}

export function measureLayouts(options: MeasureOptions, say: (line: string) => void): Layouts {
  const a6000 = PRECISIONS.flatMap(([precision, device]) =>
    LAYOUTS.map(([name, busOf]) => {
      say(`a6000 in ${precision}, ${name}`);
      const host = laidOut(hostNamed("a6000"), { busOf, device });
      return { name, precision, cells: cellsOn(host, options) };
    }),
  );
  say("the other two servers");
  const others = paperCells(["v100", "v100-hetero"]).map((cell) =>
    measure(cell.problem, { cell: cellName(cell), host: cell.host, model: cell.model }, options),
  );
  return { a6000, others };
}

function cellsOn(host: InferenceHost, options: MeasureOptions): readonly Measured[] {
  return PAPER_MODELS.flatMap((model) =>
    PAPER_SHAPES.map((shape) => {
      const problem = problemFor(paperGraph(model, shape), host);
      const cell = cellName({ host: host.name, model, shape, problem });
      return measure(problem, { cell, host: host.name, model }, options);
    }),
  );
}

function laidOut(
  host: InferenceHost,
  { busOf, device: kind }: { readonly busOf: readonly number[]; readonly device: string },
): InferenceHost {
  const device = KNOWN_DEVICES.find((known) => known.kind === kind);
  if (device === undefined) throw new Error(`there is no device ${kind}`);
  const gpus = host.gpus.map((gpu, at) => ({ ...gpu, device, bus: busOf[at] ?? 0 }));
  return { ...host, gpus, buses: host.buses.slice(0, new Set(busOf).size) };
}

/** @throws Error when EfficientMIP is far from its published best in every layout */
export function layoutBars({ a6000, others }: Layouts): readonly Bar[] {
  const judged = a6000
    .filter(({ precision, cells }) => precision === "FP32" && isAccepted(cells))
    .map(({ name, cells }) => ({ name, all: speedUps([...others, ...cells], "oursMs") }));
  const worst = (figure: (all: readonly number[]) => number): { got: number; note: string } => {
    const [least] = judged
      .map(({ name, all }) => ({ got: figure(all), note: `FP32, ${all.length} cells; ${name}` }))
      .sort((a, b) => a.got - b.got);
    if (least === undefined) throw new Error("EfficientMIP fits the paper in no layout");
    return least;
  };
  const behind = [...others, ...a6000.flatMap(({ cells }) => cells)].flatMap((cell) =>
    rivalsAhead(cell).map((name) => `${cell.cell}: ${name}`),
  );
  return [
    barOf({
      id: "speed-up over all servers, mean, worst layout of a6000",
      unit: "×",
      paper: PAPER.ours.mean,
      target: atLeast(PAPER.ours.mean),
      ...worst(mean),
    }),
    barOf({
      id: "speed-up over all servers, max, worst layout of a6000",
      unit: "×",
      paper: PAPER.ours.max,
      target: atLeast(PAPER.ours.max),
      ...worst((all) => Math.max(...all)),
    }),
    barOf({
      id: "cells behind a rival in any layout",
      unit: "cells",
      target: exactly(0),
      got: behind.length,
      ...(behind.length > 0 && { note: behind.join("; ") }),
    }),
    ...a6000.map(({ name, precision, cells }) =>
      barOf({
        id: `a6000 alone, ${precision}, ${name}, mean`,
        unit: "×",
        target: REPORTED,
        got: mean(speedUps(cells, "oursMs")),
        note: `EfficientMIP there ${mean(speedUps(cells, "efficientMipMs")).toFixed(3)}`,
      }),
    ),
  ];
}

const isAccepted = (cells: readonly Measured[]): boolean =>
  Math.abs(Math.max(...speedUps(cells, "efficientMipMs")) / PAPER.efficientMip.max - 1) <= ACCEPTED;

export function layoutTable({ a6000 }: Layouts): BenchTable {
  const figures = (
    cells: readonly Measured[],
    of: "oursMs" | "efficientMipMs" | "deepPlanMs",
  ): readonly string[] => {
    const all = speedUps(cells, of);
    return all.length === 0 ? ["-", "-"] : [mean(all).toFixed(2), Math.max(...all).toFixed(2)];
  };
  return {
    title:
      "The A6000 server alone, by its buses: speed-up over one GPU, mean and max; * can be the paper's",
    columns: ["buses", "products", "ours", "max", "DeepPlan", "max", "Eff.MIP", "max"],
    rows: a6000.map(({ name, precision, cells }) => [
      isAccepted(cells) ? `${name} *` : name,
      precision,
      ...figures(cells, "oursMs"),
      ...figures(cells, "deepPlanMs"),
      ...figures(cells, "efficientMipMs"),
    ]),
  };
}
