/**
 * @file Figure 13: the planner without topology (all speeds replaced by their averages) and without contention on buses (each GPU is
 * thought to have its own, and queues its own copies), executed on the real servers.
 */

import { barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import { mean } from "../statistics.ts";
import type { InferenceHost } from "../../domain/model/inference-host.ts";
import { planOf } from "../../planning/inference/decisions.ts";
import type { PlanningProblem } from "../../planning/inference/problem.ts";
import { paperGraph } from "../../planning/inference/paper-models.ts";
import {
  baseMs,
  cellName,
  executedMs,
  paperCells,
  problemFor,
  search,
  type MeasureOptions,
} from "./cells.ts";

export interface AblationRow {
  readonly cell: string;
  readonly host: string;
  readonly ours: number;
  readonly noTopology: number;
  readonly noContention: number;
}

export function measureAblation(
  options: MeasureOptions,
  say: (line: string) => void,
): readonly AblationRow[] {
  return paperCells(["v100", "v100-hetero"]).map((cell) => {
    const { problem } = cell;
    say(`without topology, without contention: ${cellName(cell)}`);
    const graph = paperGraph(cell.model, cell.shape);
    const base = baseMs(problem, options);
    const ours = search(problem, options);
    const averaged = averageOf(problem);
    const flat = search(averaged, options);
    const ownBuses = problemFor(graph, withOwnBuses(problem.host));
    const uncontended = search(ownBuses, options);
    const executed = (decisions: typeof flat.decisions, isPerGpu = false): number =>
      base /
      executedMs(problem, planOf(problem, decisions), {
        ...options,
        copyQueues: isPerGpu ? "per gpu" : "per bus",
      });
    return {
      cell: cellName(cell),
      host: cell.host,
      ours: executed(ours.decisions),
      noTopology: executed(flat.decisions),
      noContention: executed(uncontended.decisions, true),
    };
  });
}

/** Every GPU and every link as fast as the average one. */
function averageOf(problem: PlanningProblem): PlanningProblem {
  const { gpuCount } = problem;
  const perOperation = (times: Float64Array): Float64Array =>
    times.map((_, cell) => {
      const from = cell - (cell % gpuCount);
      return mean([...times.subarray(from, from + gpuCount)]);
    });
  const links = [...problem.peerMsPerByte].filter((ms) => ms > 0);
  const link = mean(links);
  return {
    ...problem,
    kernelMs: perOperation(problem.kernelMs),
    directMs: perOperation(problem.directMs),
    peerMsPerByte: problem.peerMsPerByte.map((ms) => (ms > 0 ? link : 0)),
  };
}

function withOwnBuses(host: InferenceHost): InferenceHost {
  return {
    ...host,
    buses: host.gpus.map(({ name, bus }) => ({ name, busGBs: host.buses[bus]?.busGBs ?? 1 })),
    gpus: host.gpus.map((gpu, bus) => ({ ...gpu, bus })),
  };
}

export function ablationBars(rows: readonly AblationRow[]): Bar[] {
  return ["v100", "v100-hetero"].flatMap((host) => {
    const own = rows.filter((row) => row.host === host);
    const bar = (id: string, of: (row: AblationRow) => number): Bar =>
      barOf({
        id: `${host}: ${id}, mean speed-up`,
        unit: "×",
        target: REPORTED,
        got: mean(own.map(of)),
        note: `with it ${mean(own.map((row) => row.ours)).toFixed(3)}`,
      });
    return [
      bar("no topology", (row) => row.noTopology),
      bar("no contention", (row) => row.noContention),
    ];
  });
}

export function ablationTable(rows: readonly AblationRow[]): BenchTable {
  return {
    title: "What the planner loses without topology and without bus contention (speed-up)",
    columns: ["cell", "ours", "no topology", "no contention"],
    rows: rows.map((row) => [
      row.cell,
      ...[row.ours, row.noTopology, row.noContention].map((value) => value.toFixed(2)),
    ]),
  };
}
