/** @file Figures 4 and 9 to 14 of the paper from this run, as SVG; timelines also as Chrome traces. */

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { randomFrom } from "../../lib/random.ts";
import { planOf } from "../../scheduling/inference/decisions.ts";
import { efficientMipDecisions } from "../../scheduling/inference/efficient-mip.ts";
import { execute } from "../../scheduling/inference/executor.ts";
import { paperGraph, PAPER_MODELS, PAPER_SHAPES } from "../../scheduling/inference/paper-models.ts";
import { chromeTrace, timelineSvg } from "../../scheduling/inference/timeline.ts";
import { fastestGpu } from "../../scheduling/inference/rivals.ts";
import type { AblationRow } from "./ablation.ts";
import { hostNamed, problemFor, type Measured } from "./cells.ts";
import type { MilpRow } from "./milp-part.ts";
import type { RemainingRow } from "./remaining.ts";

interface Group {
  readonly name: string;
  readonly values: readonly (number | undefined)[];
}

interface BarChart {
  readonly title: string;
  readonly unit: string;
  readonly series: readonly string[];
  readonly groups: readonly Group[];
}

const COLOURS = ["#4c78a8", "#bab0ac", "#f58518", "#54a24b", "#e45756", "#72b7b2"];
const HEIGHT = 320;
/** How far the name of the last group leans out of its group. */
const LABEL_WIDTH = 90;

export function write(dir: string, name: string, text: string): void {
  mkdirSync(dir, { recursive: true });
  writeFileSync(join(dir, name), text);
}

export function drawCompare(dir: string, cells: readonly Measured[]): void {
  const over = ({ baseMs }: Measured, ms: number | undefined): number | undefined =>
    baseMs === undefined || ms === undefined ? undefined : baseMs / ms;
  for (const host of new Set(cells.map((cell) => cell.host))) {
    const own = cells.filter((cell) => cell.host === host);
    const short = (cell: Measured): string => cell.cell.slice(host.length + 1);
    write(
      dir,
      `figure-9-${host}.svg`,
      barChart({
        title: `Speed-up over one GPU, ${host}`,
        unit: "×",
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
    write(
      dir,
      `figure-11-${host}.svg`,
      barChart({
        title: `Expected and executed latency, ${host}`,
        unit: "ms",
        series: ["expected", "executed"],
        groups: own.map((cell) => ({ name: short(cell), values: [cell.expectedMs, cell.oursMs] })),
      }),
    );
  }
  const timed = cells.filter(({ cell }) => cell.endsWith("OpenLLaMA-3B (1, 1024)"));
  for (const { cell, host, problem, plan } of timed.length > 0 ? timed : cells.slice(0, 1)) {
    const { spans } = execute(problem, plan, { random: randomFrom(1) });
    write(dir, `figure-10-${host}.svg`, timelineSvg(problem.host, spans, cell));
    write(dir, `figure-10-${host}.trace.json`, chromeTrace(problem.host, spans));
  }
  drawSelections(dir);
}

/** Figure 4: EfficientMIP's schedule for two GPUs on each partner of GPU1 of the V100 server, over GPU1 alone. */
function drawSelections(dir: string): void {
  const host = hostNamed("v100");
  const pairs = [1, 2, 3];
  const groups = PAPER_MODELS.flatMap((model) =>
    PAPER_SHAPES.map((shape): Group => {
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
  write(
    dir,
    "figure-4.svg",
    barChart({
      title: "One schedule on different pairs of GPUs, over GPU1 alone",
      unit: "×",
      series: ["GPU1 + GPU2", "GPU1 + GPU3", "GPU1 + GPU4"],
      groups,
    }),
  );
}

export const drawAblation = (dir: string, rows: readonly AblationRow[]): void =>
  write(
    dir,
    "figure-13.svg",
    barChart({
      title: "Without topology, without contention: speed-up",
      unit: "×",
      series: ["ours", "no topology", "no contention"],
      groups: rows.map((row) => ({
        name: row.cell,
        values: [row.ours, row.noTopology, row.noContention],
      })),
    }),
  );

export function drawRemaining(dir: string, rows: readonly RemainingRow[]): void {
  for (const model of PAPER_MODELS) {
    const own = rows.filter((row) => row.model === model);
    write(
      dir,
      `figure-14-${model}.svg`,
      barChart({
        title: `Remaining parameters, ${model} (1, 32), V100`,
        unit: "ms",
        series: ["one GPU", "ours", "not gathered", "cold plan again"],
        groups: own.map((row) => ({
          name: `${row.sharePercent} %`,
          values: [row.baseMs, row.oursMs, row.knowingMs, row.againMs],
        })),
      }),
    );
  }
}

export const drawMilp = (dir: string, rows: readonly MilpRow[]): void =>
  write(
    dir,
    "figure-12.svg",
    barChart({
      title: "MILP by q, nDom and time, and the search: speed-up",
      unit: "×",
      series: ["MILP", "search"],
      groups: rows.map((row) => ({
        name: `q ${row.q}, nDom ${row.nDom}, ${row.seconds} s`,
        values: [row.speedUp, row.speedUp / row.oursShare],
      })),
    }),
  );

function barChart({ title, unit, series, groups }: BarChart): string {
  const top = Math.max(...groups.flatMap(({ values }) => values.map((value) => value ?? 0)), 1e-9);
  const groupWidth = Math.max(44, series.length * 9 + 10);
  const width = 60 + groups.length * groupWidth;
  const yAt = (value: number): number => HEIGHT - 110 - (value / top) * (HEIGHT - 160);
  const bars = groups.flatMap(({ name, values }, group) => {
    const x = 52 + group * groupWidth;
    const label = `<text transform="translate(${x + 8} ${HEIGHT - 100}) rotate(40)" font-size="9">${name}</text>`;
    const rects = values.flatMap((value, at) =>
      value === undefined
        ? []
        : [
            `<rect x="${x + at * 9}" y="${yAt(value).toFixed(1)}" width="8" height="${(yAt(0) - yAt(value)).toFixed(1)}" fill="${COLOURS[at % COLOURS.length] ?? ""}"><title>${value.toFixed(3)} ${unit}</title></rect>`,
          ],
    );
    return [label, ...rects];
  });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const y = yAt(share * top).toFixed(1);
    return `<line x1="48" x2="${width}" y1="${y}" y2="${y}" stroke="#ddd"/><text x="4" y="${y}" font-size="10">${(share * top).toPrecision(3)} ${unit}</text>`;
  });
  const legend = series.map(
    (name, at) =>
      `<rect x="${60 + at * 140}" y="30" width="10" height="10" fill="${COLOURS[at % COLOURS.length] ?? ""}"/><text x="${74 + at * 140}" y="39" font-size="11">${name}</text>`,
  );
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${Math.max(width + LABEL_WIDTH, 80 + series.length * 140)} ${HEIGHT}" font-family="sans-serif">`,
    `<rect width="100%" height="100%" fill="white"/><text x="8" y="18" font-size="14">${title}</text>`,
    ...legend,
    ...ticks,
    ...bars,
    "</svg>",
    "",
  ].join("\n");
}
