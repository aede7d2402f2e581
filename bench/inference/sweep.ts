/** @file Kernels, buses and links ±20 %: whether the planners keep their order when the cost model is off by that much. */

import { barOf, exactly, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import { PAPER_SHAPES } from "../../planning/inference/paper-models.ts";
import type { CostScale } from "../../planning/inference/problem.ts";
import { cellName, measure, paperCells, PAPER_HOSTS, type MeasureOptions } from "./cells.ts";
import { rivalsAhead, speedUps } from "./compare-bars.ts";

interface SweepRow {
  readonly name: string;
  readonly ours: number;
  readonly deepPlan: number;
  readonly efficientMip: number;
  readonly overlap: number;
  readonly behind: number;
}

/** The order of the planners shows with fewer estimates than the best plan needs. */
const ESTIMATES = 1000;
const FACTORS: readonly (readonly [keyof CostScale, number])[] = [
  ["kernel", 0.8],
  ["kernel", 1.2],
  ["bus", 0.8],
  ["bus", 1.2],
  ["peer", 0.8],
  ["peer", 1.2],
];

export function measureSweep(
  options: MeasureOptions,
  say: (line: string) => void,
): readonly SweepRow[] {
  return FACTORS.map(([what, factor], setting) => {
    say(`${what} times × ${factor}`);
    // Two shapes of each model on each host, the other two with the other factor: every cell is swept once for each cost.
    const isSwept = (_: unknown, at: number): boolean =>
      (at + Math.floor(at / PAPER_SHAPES.length) + setting) % 2 === 0;
    const swept = paperCells(PAPER_HOSTS, { scale: { [what]: factor } }).filter(isSwept);
    const cells = swept.map((cell) =>
      measure(
        cell.problem,
        { cell: cellName(cell), host: cell.host, model: cell.model },
        { ...options, estimates: options.estimates > 0 ? options.estimates : ESTIMATES, draws: 1 },
      ),
    );
    return {
      name: `${what} × ${factor}`,
      ours: mean(speedUps(cells, "oursMs")),
      deepPlan: mean(speedUps(cells, "deepPlanMs")),
      efficientMip: mean(speedUps(cells, "efficientMipMs")),
      overlap: mean(speedUps(cells, "overlapMs")),
      behind: cells.filter((cell) => rivalsAhead(cell).length > 0).length,
    };
  });
}

export function sweepBars(rows: readonly SweepRow[]): Bar[] {
  const turned = rows.filter(
    (row) => !(row.ours > row.deepPlan && row.deepPlan > row.efficientMip && row.efficientMip > 1),
  );
  return [
    barOf({
      id: "order of the planners changes within ±20 %",
      unit: "settings",
      target: exactly(0),
      got: turned.length,
      note: `of ${rows.length}; ours > DeepPlan > EfficientMIP > one GPU, means over half of the cells`,
    }),
    barOf({
      id: "cells behind a rival within ±20 %",
      unit: "cells",
      target: exactly(0),
      got: rows.reduce((sum, { behind }) => sum + behind, 0),
    }),
  ];
}

export function sweepTable(rows: readonly SweepRow[]): BenchTable {
  return {
    title: "Times of the cost model off by 20 %, mean speed-ups",
    columns: ["setting", "ours", "DeepPlan", "Eff.MIP", "overlap", "cells behind"],
    rows: rows.map((row) => [
      row.name,
      ...[row.ours, row.deepPlan, row.efficientMip, row.overlap].map((value) => value.toFixed(3)),
      String(row.behind),
    ]),
  };
}
