/** @file The inference bench: its frozen cost model, and rivals that do not fit into memory. */

import { expect, it } from "vitest";
import { measure, paperCells, type Measured } from "../../bench/inference/cells.ts";
import { rivalsAhead } from "../../bench/inference/compare-bars.ts";
import { layoutBars } from "../../bench/inference/layouts.ts";
import { frozenBar } from "../../bench/inference/frozen.ts";
import { tinyGraph, tinyHost, tinyProblem } from "../planning/inference/problems.ts";

it("finds the cost model as it was frozen, and a changed one changed", () => {
  const cells = paperCells(["v100-hetero", "p4d.24xlarge"]);
  expect(frozenBar(cells)).toMatchObject({ got: 0, holds: true });
  const [cell] = paperCells(["a6000"], { scale: { kernel: 1.000_01 } });
  if (cell === undefined) throw new Error("there is no cell");
  expect(frozenBar([cell])).toMatchObject({ got: 1, holds: false });
});

it("counts no rival ahead whose plan does not fit", () => {
  // Two parameters of 0.8 GB, each read by two operations, on GPUs of one GiB: no single GPU holds both.
  const graph = tinyGraph(
    [0, 1, 0, 1].map((parameter, at) => ({
      kernelMs: 1,
      parameters: [parameter],
      inputs: at === 0 ? [] : [at - 1],
      outputMB: 1,
    })),
    [800, 800],
  );
  const problem = tinyProblem(graph, tinyHost({ buses: [0, 1], memoryGiB: 1 }));
  const names = { cell: "tight", host: "tiny", model: "tiny" };
  const measured = measure(problem, names, { seed: 1, draws: 1, estimates: 400 });
  expect(measured.baseMs).toBeUndefined();
  expect(measured.overlapMs).toBeUndefined();
  expect(measured.deepPlanMs).toBeUndefined();
  expect(measured.memoryShare).toBeLessThanOrEqual(1);
  expect(rivalsAhead(measured)).toEqual([]);
});

it("judges the layout that is worst for ours, among those that can be the paper's", () => {
  const problem = tinyProblem(
    tinyGraph([{ kernelMs: 1, parameters: [0], inputs: [], outputMB: 1 }], [1]),
    tinyHost({ buses: [0, 1], memoryGiB: 1 }),
  );
  const names = { cell: "a", host: "a6000", model: "a" };
  const measured = measure(problem, names, { seed: 1, draws: 1, estimates: 10 });
  const cell = (oursMs: number, efficientMipMs: number): Measured => ({
    ...measured,
    baseMs: 100,
    oursMs,
    efficientMipMs,
  });
  const layout = (name: string, cells: readonly Measured[], precision = "FP32") => ({
    name,
    precision,
    cells,
  });
  const bars = layoutBars({
    others: [cell(40, 90)],
    a6000: [
      layout("apart", [cell(25, 62)]),
      layout("a pair", [cell(50, 65)]),
      layout("one bus", [cell(80, 95)]),
      layout("tensor cores", [cell(90, 62)], "TF32"),
    ],
  });
  expect(bars.find(({ id }) => id.includes("mean, worst"))).toMatchObject({
    got: (2.5 + 2) / 2,
    note: "FP32, 2 cells; a pair",
  });
  expect(bars.find(({ id }) => id.includes("max, worst"))).toMatchObject({ got: 2.5 });
});
