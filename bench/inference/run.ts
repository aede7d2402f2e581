/** @file `bench inference`, part by part. */

import type { Bar } from "../bar.ts";
import { atLeast, barOf, REPORTED } from "../bar.ts";
import type { BenchAnswer, BenchRequest, BenchTable } from "../bench.ts";
import type { InferencePart } from "../inference.ts";
import { readInferenceGraph, readInferenceHost } from "../../cli/planning/inference-source.ts";
import { ablationBars, ablationTable, measureAblation } from "./ablation.ts";
import {
  cellName,
  hostNamed,
  measure,
  paperCells,
  PAPER_HOSTS,
  problemFor,
  type Cell,
  type Measured,
  type MeasureOptions,
} from "./cells.ts";
import {
  compareBars,
  compareTable,
  errorPercent,
  PAPER,
  rivalsAhead,
  speedUps,
} from "./compare-bars.ts";
import { measureExecutor } from "./executor-part.ts";
import { drawAblation, drawCompare, drawMilp, drawRemaining } from "./figures.ts";
import { frozenBar } from "./frozen.ts";
import { layoutBars, layoutTable, measureLayouts } from "./layouts.ts";
import { liveBars, liveTable, measureLive } from "./live.ts";
import { measureMilp, milpBars, milpTable } from "./milp-part.ts";
import { measureOptimum } from "./optimum-bars.ts";
import { measurePolish, polishBars, polishTable } from "./polish-part.ts";
import { measureRemaining, remainingBars, remainingTable } from "./remaining.ts";
import { measureSweep, sweepBars, sweepTable } from "./sweep.ts";

/** The paper's first server: where a model is planned when nobody names a host. */
const DEFAULT_HOST = "v100";

export async function runInference(request: BenchRequest): Promise<BenchAnswer> {
  const options: MeasureOptions = {
    seed: request.seed,
    draws: request.size("draws"),
    estimates: request.size("estimates"),
  };
  const say = (line: string): void => {
    request.interrupted.throwIfAborted();
    request.say(line);
  };
  const graphFile = request.text("graph");
  if (graphFile !== undefined) return compareOne(request, { ...options, graphFile });
  const parts = new Set(request.chosen("only"));
  const cpuSeconds: Record<string, number> = {};
  let part: InferencePart | undefined;
  let before = process.cpuUsage();
  /** Says what the part before took, and whether the next one is wanted. */
  const isChosen = (next?: InferencePart): boolean => {
    if (part !== undefined) {
      const { user, system } = process.cpuUsage(before);
      cpuSeconds[part] = (user + system) / 1e6;
      request.say(`${part} took ${((user + system) / 1e6).toFixed(0)} s of processor time`);
    }
    before = process.cpuUsage();
    part = next !== undefined && parts.has(next) ? next : undefined;
    return part !== undefined;
  };
  const { plotDir } = request;
  const bars: Bar[] = [];
  const tables: BenchTable[] = [];
  const details: Record<string, unknown> = {};

  const compareCells = (cells: readonly Cell[]): Measured[] =>
    cells.map((cell) => {
      say(`planning ${cellName(cell)}`);
      const names = { cell: cellName(cell), host: cell.host, model: cell.model };
      return measure(cell.problem, names, options);
    });
  if (isChosen("compare")) {
    const paper = paperCells(PAPER_HOSTS);
    const cells = compareCells(paper);
    bars.push(frozenBar(paper), ...compareBars(cells));
    tables.push(compareTable("Speed-up over one GPU (copies, then kernels), executed", cells));
    details["cells"] = cells.map(({ plan: _plan, problem: _problem, ...cell }) => cell);
    if (plotDir !== undefined) drawCompare(plotDir, cells);
  }
  if (isChosen("layouts")) {
    const layouts = measureLayouts(options, say);
    bars.push(...layoutBars(layouts));
    tables.push(layoutTable(layouts));
  }
  if (isChosen("live")) {
    const rows = await measureLive(options, say);
    bars.push(...liveBars(rows));
    tables.push(liveTable(rows));
  }
  if (isChosen("polish")) {
    const limitMs = request.size("polish-seconds") * 1e3;
    const rows = await measurePolish({ ...options, limitMs }, say);
    bars.push(...polishBars(rows));
    tables.push(polishTable(rows));
  }
  if (isChosen("p4d")) {
    const paper = paperCells(["p4d.24xlarge", "p4d.24xlarge-fp32"]).filter(
      ({ shape }) => shape.batch === 32,
    );
    const cells = compareCells(paper);
    tables.push(compareTable("p4d.24xlarge, products in TF32 and in plain FP32", cells));
    bars.push(...p4dBars(cells));
  }
  if (isChosen("remaining")) {
    const rows = measureRemaining(options, say);
    bars.push(...remainingBars(rows));
    tables.push(remainingTable(rows));
    if (plotDir !== undefined) drawRemaining(plotDir, rows);
  }
  if (isChosen("sweep")) {
    const rows = measureSweep(options, say);
    bars.push(...sweepBars(rows));
    tables.push(sweepTable(rows));
  }
  if (isChosen("ablation")) {
    const rows = measureAblation(options, say);
    bars.push(...ablationBars(rows));
    tables.push(ablationTable(rows));
    if (plotDir !== undefined) drawAblation(plotDir, rows);
  }
  if (isChosen("optimum"))
    bars.push(
      ...(await measureOptimum({
        cases: request.size("cases"),
        prove: request.size("prove"),
        say,
        interrupted: request.interrupted,
      })),
    );
  const seconds = request.size("milp-seconds");
  if (seconds > 0 && isChosen("milp")) {
    const rows = await measureMilp({ ...options, seconds, interrupted: request.interrupted }, say);
    bars.push(...milpBars(rows));
    tables.push(milpTable(rows));
    if (plotDir !== undefined) drawMilp(plotDir, rows);
  }
  if (isChosen("executor")) {
    const served = await measureExecutor(request);
    bars.push(...served.bars);
    tables.push(...(served.tables ?? []));
  }
  isChosen();
  details["cpuSeconds"] = cpuSeconds;
  return { bars, tables, details };
}

function p4dBars(cells: readonly Measured[]): readonly Bar[] {
  const best = (host: string): number =>
    Math.max(
      ...speedUps(
        cells.filter((cell) => cell.host === host),
        "oursMs",
      ),
    );
  return [
    barOf({
      id: "p4d.24xlarge (32, 64), best model",
      unit: "×",
      paper: PAPER.p4d,
      target: atLeast(PAPER.p4d),
      got: best("p4d.24xlarge"),
      note: "products in TF32",
    }),
    barOf({
      id: "p4d.24xlarge (32, 64) in FP32, best model",
      unit: "×",
      target: REPORTED,
      got: best("p4d.24xlarge-fp32"),
      note: "no plan can reach 3.7 there: see the bounds in the table",
    }),
  ];
}

/** Another model on another host: no published figures, so the bars are about rivals and the estimate only. */
async function compareOne(
  request: BenchRequest,
  options: MeasureOptions & { readonly graphFile: string },
): Promise<BenchAnswer> {
  const hostFile = request.text("host");
  const source = { cwd: process.cwd(), profiledOn: request.text("profiled-on") ?? "V100" };
  const graph = await readInferenceGraph(options.graphFile, source);
  const host =
    hostFile === undefined ? hostNamed(DEFAULT_HOST) : readInferenceHost(hostFile, source);
  const problem = problemFor(graph, host);
  const names = {
    cell: `${problem.host.name} ${problem.graph.name}`,
    host: problem.host.name,
    model: problem.graph.name,
  };
  request.say(`planning ${names.cell}`);
  const cell = measure(problem, names, options);
  if (request.plotDir !== undefined) drawCompare(request.plotDir, [cell]);
  const ahead = rivalsAhead(cell);
  const { plan: _plan, problem: _problem, ...figures } = cell;
  return {
    bars: [
      barOf({
        id: "speed-up over one GPU",
        unit: "×",
        target: atLeast(1),
        got: cell.baseMs === undefined ? undefined : cell.baseMs / cell.oursMs,
      }),
      barOf({
        id: "rivals ahead",
        unit: "rivals",
        target: { kind: "exactly", value: 0 },
        got: ahead.length,
        ...(ahead.length > 0 && { note: ahead.join(", ") }),
      }),
      barOf({
        id: "estimate off the executed",
        unit: "%",
        target: REPORTED,
        got: errorPercent(cell),
      }),
    ],
    tables: [compareTable("Speed-up over one GPU", [cell])],
    details: { cells: [figures] },
  };
}
