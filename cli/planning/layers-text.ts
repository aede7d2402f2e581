/** @file The layers of a model as a table: runs of equal layers with parameters, FLOPs, activations and output size. */

import type { PlanLayer, PlanModel } from "../../planning/parallelism/models.ts";
import { tableText } from "../terminal/table.ts";

/** Rows of the table; profiles of real models have hundreds of layers that differ. */
const MOST_RUNS = 10;

interface Run {
  readonly first: PlanLayer;
  readonly last: PlanLayer;
  readonly count: number;
}

export function layersText({ layers }: PlanModel, width: number): string {
  const runs = runsOf(layers);
  const shown = runs.length <= MOST_RUNS ? runs : runs.slice(0, MOST_RUNS - 1);
  const rows = shown.map(({ first, last, count }) => [
    count === 1 ? first.name : `${first.name} – ${last.name}`,
    String(count),
    (first.parameters / 1e6).toFixed(2),
    (first.forwardFlops / 1e9).toFixed(2),
    mebibytes(first.activationBytes),
    mebibytes(first.outputBytes),
  ]);
  const sum = (of: (layer: PlanLayer) => number): number =>
    layers.reduce((total, layer) => total + of(layer), 0);
  rows.push([
    "all",
    String(layers.length),
    (sum(({ parameters }) => parameters) / 1e6).toFixed(2),
    (sum(({ forwardFlops }) => forwardFlops) / 1e9).toFixed(2),
    mebibytes(sum(({ activationBytes }) => activationBytes)),
    "",
  ]);
  const table = tableText(
    [
      { title: "LAYERS", least: 12 },
      { title: "COUNT", isRight: true },
      { title: "M PARAMETERS", isRight: true },
      { title: "GFLOP", isRight: true },
      { title: "KEPT MIB", isRight: true },
      { title: "SENT MIB", isRight: true },
    ],
    rows,
    width,
  );
  const left = runs.length - shown.length;
  const note =
    "One layer each: forward GFLOP (backward is twice that), activations kept and sent on, of one sample";
  return `${table}\n${note}${left > 0 ? `; ${left} more rows are in --json` : ""}`;
}

/** Consecutive layers that differ only in their names. */
function runsOf(layers: readonly PlanLayer[]): readonly Run[] {
  const runs: Run[] = [];
  for (const layer of layers) {
    const run = runs.at(-1);
    if (run !== undefined && isAlike(run.first, layer))
      runs[runs.length - 1] = { ...run, last: layer, count: run.count + 1 };
    else runs.push({ first: layer, last: layer, count: 1 });
  }
  return runs;
}

const isAlike = (a: PlanLayer, b: PlanLayer): boolean =>
  a.parameters === b.parameters &&
  a.forwardFlops === b.forwardFlops &&
  a.outputBytes === b.outputBytes &&
  a.activationBytes === b.activationBytes;

const mebibytes = (bytes: number): string => (bytes / 2 ** 20).toFixed(1);
