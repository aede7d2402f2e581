/** @file Figures 4 and 9 to 14 of the paper from this run, as SVG; timelines also as Chrome traces. */

import { randomFrom } from "../../lib/random.ts";
import { planOf } from "../../planning/inference/decisions.ts";
import { efficientMipDecisions } from "../rivals/inference/efficient-mip.ts";
import { execute } from "../../planning/inference/executor.ts";
import { paperGraph, PAPER_MODELS, PAPER_SHAPES } from "../../planning/inference/paper-models.ts";
import { chromeTrace, timelineSvg } from "../../planning/inference/timeline.ts";
import { fastestGpu } from "../../planning/inference/rivals.ts";
import { barsSvg, type BarGroup } from "../bars-figure.ts";
import { writeFigure } from "../chart-file.ts";
import type { AblationRow } from "./ablation.ts";
import { hostNamed, problemFor, type Measured } from "./cells.ts";
import type { MilpRow } from "./milp-part.ts";
import type { RemainingRow } from "./remaining.ts";

export function drawCompare(dir: string, cells: readonly Measured[]): void {
  const over = ({ baseMs }: Measured, ms: number | undefined): number | undefined =>
    baseMs === undefined || ms === undefined ? undefined : baseMs / ms;
  for (const host of new Set(cells.map((cell) => cell.host))) {
    const own = cells.filter((cell) => cell.host === host);
    const short = (cell: Measured): string => cell.cell.slice(host.length + 1);
    writeFigure(
      dir,
      `figure-9-${host}.svg`,
      barsSvg({
        title: `Speed-up over one GPU, ${host}`,
        label: "× over one GPU",
        markedAt: 1,
        series: ["ours", "one GPU, overlapped", "DeepPlan", "EfficientMIP", "critical path"],
        groups: own.map((cell) => ({
          name: short(cell),
          values: [
            over(cell, cell.oursMs),
            over(cell, cell.overlapMs),
            over(cell, cell.deepPlanMs),
            over(cell, cell.efficientMipMs),
            over(cell, cell.bounds.criticalPathMs),
          ],
        })),
      }),
    );
    writeFigure(
      dir,
      `figure-11-${host}.svg`,
      barsSvg({
        title: `Expected and executed latency, ${host}`,
        label: "ms",
        series: ["expected", "executed"],
        groups: own.map((cell) => ({ name: short(cell), values: [cell.expectedMs, cell.oursMs] })),
      }),
    );
  }
  const timed = cells.filter(({ cell }) => cell.endsWith("OpenLLaMA-3B (1, 1024)"));
  for (const { cell, host, problem, plan } of timed.length > 0 ? timed : cells.slice(0, 1)) {
    const { spans } = execute(problem, plan, { random: randomFrom(1) });
    writeFigure(dir, `figure-10-${host}.svg`, timelineSvg(problem.host, spans, cell));
    writeFigure(dir, `figure-10-${host}.trace.json`, chromeTrace(problem.host, spans));
  }
  drawSelections(dir);
}

/** Figure 4: EfficientMIP's schedule for two GPUs on each partner of GPU1 of the V100 server, over GPU1 alone. */
function drawSelections(dir: string): void {
  const host = hostNamed("v100");
  const pairs = [1, 2, 3];
  const groups = PAPER_MODELS.flatMap((model) =>
    PAPER_SHAPES.map((shape): BarGroup => {
      const graph = paperGraph(model, shape);
      const latency = (gpus: readonly number[]): number => {
        const chosen = {
          ...host,
          gpus: gpus.flatMap((gpu) => host.gpus[gpu] ?? []),
          peers: gpus.map((a) => gpus.flatMap((b) => host.peers[a]?.[b] ?? [])),
        };
        const problem = problemFor(graph, chosen);
        const decisions = efficientMipDecisions(problem);
        if (gpus.length === 1) decisions.gpu.fill(fastestGpu(problem));
        return execute(problem, planOf(problem, decisions)).latencyMs;
      };
      const alone = latency([0]);
      return {
        name: `${model} (${shape.batch}, ${shape.sequence})`,
        values: pairs.map((partner) => alone / latency([0, partner])),
      };
    }),
  );
  writeFigure(
    dir,
    "figure-4.svg",
    barsSvg({
      title: "One schedule on different pairs of GPUs, over GPU1 alone",
      label: "× over one GPU",
      markedAt: 1,
      series: ["GPU1 + GPU2", "GPU1 + GPU3", "GPU1 + GPU4"],
      groups,
    }),
  );
}

export function drawAblation(dir: string, rows: readonly AblationRow[]): void {
  for (const host of new Set(rows.map((row) => row.host)))
    writeFigure(
      dir,
      `figure-13-${host}.svg`,
      barsSvg({
        title: `Without topology, without contention: speed-up over one GPU, ${host}`,
        label: "× over one GPU",
        markedAt: 1,
        series: ["ours", "no topology", "no contention"],
        groups: rows
          .filter((row) => row.host === host)
          .map((row) => ({
            name: row.cell.slice(host.length + 1),
            values: [row.ours, row.noTopology, row.noContention],
          })),
      }),
    );
}

export function drawRemaining(dir: string, rows: readonly RemainingRow[]): void {
  for (const model of PAPER_MODELS) {
    const own = rows.filter((row) => row.model === model);
    writeFigure(
      dir,
      `figure-14-${model}.svg`,
      barsSvg({
        title: `Remaining parameters, ${model} (1, 32), V100`,
        label: "ms",
        series: ["ours", "one GPU", "not gathered", "cold plan again"],
        groups: own.map((row) => ({
          name: `${row.sharePercent} %`,
          values: [row.oursMs, row.baseMs, row.knowingMs, row.againMs],
        })),
      }),
    );
  }
}

export const drawMilp = (dir: string, rows: readonly MilpRow[]): void =>
  writeFigure(
    dir,
    "figure-12.svg",
    barsSvg({
      title: "MILP by q, nDom and time, and the search: speed-up",
      label: "× over one GPU",
      markedAt: 1,
      series: ["search", "MILP"],
      groups: rows.map((row) => ({
        name: `q ${row.q}, nDom ${row.nDom}, ${row.seconds} s`,
        values: [row.speedUp / row.oursShare, row.speedUp],
      })),
    }),
  );
