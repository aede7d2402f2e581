/**
 * @file Figure 14: a second run while a share of the parameters still lies in GPU memory, beside one GPU with the same share.
 *
 * After a cold run each parameter lies where the plan put it. Our planner also has what it can spare gathered on the fastest GPU once
 * the answer is out, over links that are idle then, so that a run in which nothing has to be copied need not cross GPUs. Three
 * ways: the cold plan again (the paper's), a new plan that knows what is where, and that with gathering. The last one is the product's.
 */

import { barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";
import type { PlanningProblem } from "../../planning/inference/problem.ts";
import { planOf } from "../../planning/inference/decisions.ts";
import { fastestGpu } from "../../planning/inference/rivals.ts";
import { activationPeakBytes, searchPlan } from "../../planning/inference/search.ts";
import {
  PAPER_MODELS,
  paperGraph,
  type PaperModel,
} from "../../planning/inference/paper-models.ts";
import { baseMs, executedMs, hostNamed, problemFor, search, type MeasureOptions } from "./cells.ts";

export interface RemainingRow {
  readonly model: PaperModel;
  readonly sharePercent: number;
  readonly baseMs: number;
  /** The cold plan again. */
  readonly againMs: number;
  readonly knowingMs: number;
  readonly oursMs: number;
}

const SHAPE = { batch: 1, sequence: 32 };
/** What is found again of a plan that mostly exists already. */
const ESTIMATES = 2000;

export function measureRemaining(
  options: MeasureOptions,
  say: (line: string) => void,
): readonly RemainingRow[] {
  const host = hostNamed("v100");
  return PAPER_MODELS.flatMap((model) => {
    const graph = paperGraph(model, SHAPE);
    const cold = problemFor(graph, host);
    const found = search(cold, options);
    const home = fastestGpu(cold);
    const landed = planOf(cold, found.decisions).busQueues.flat();
    const spareBytes = spareOn(cold, home, landed);
    return Array.from({ length: 11 }, (_, tenth) => {
      const share = tenth / 10;
      const left = firstShare(cold, share);
      const where = landed.flatMap(({ parameter, gpu, forwards }) =>
        left.has(parameter)
          ? (forwards.length === 0 ? [gpu] : forwards).map((on) => ({ parameter, gpu: on }))
          : [],
      );
      const gathered = gatherOn(cold, { home, left, where, spareBytes });
      const alone = problemFor(graph, host, {
        resident: [...left].map((parameter) => ({ parameter, gpu: home })),
      });
      const knowing = problemFor(graph, host, { resident: where });
      const ours = problemFor(graph, host, { resident: gathered });
      const again = planOf(knowing, found.decisions);
      const replanned = (problem: PlanningProblem): number => {
        const starts = [found.decisions];
        const plan = searchPlan(problem, { seed: options.seed, estimates: ESTIMATES, starts });
        if (plan.kind !== "planned") throw new Error(plan.message);
        return executedMs(problem, plan.plan, options);
      };
      say(`${model}: ${share * 100} % of the parameters remain`);
      return {
        model,
        sharePercent: share * 100,
        baseMs: baseMs(alone, options),
        againMs: executedMs(knowing, again, options),
        knowingMs: replanned(knowing),
        oursMs: replanned(ours),
      };
    });
  });
}

/** Bytes that the GPU has left beside what the plan put there and its results, reckoned generously. */
function spareOn(
  problem: PlanningProblem,
  gpu: number,
  landed: readonly { readonly parameter: number; readonly gpu: number }[],
): number {
  const own = landed.filter((copy) => copy.gpu === gpu);
  const held = own.reduce(
    (sum, { parameter }) => sum + (problem.parameterBytes[parameter] ?? 0),
    0,
  );
  return (problem.memoryBytes[gpu] ?? 0) - held - 2 * activationPeakBytes(problem);
}

/** Parameters in order until their bytes reach the share. */
function firstShare(problem: PlanningProblem, share: number): ReadonlySet<number> {
  const all = problem.parameterBytes.reduce((sum, bytes) => sum + bytes, 0);
  const left = new Set<number>();
  let bytes = 0;
  for (const [parameter, each] of problem.parameterBytes.entries()) {
    bytes += each;
    if (bytes <= share * all * (1 + 1e-9)) left.add(parameter);
  }
  return left;
}

interface Gathering {
  readonly home: number;
  readonly left: ReadonlySet<number>;
  readonly where: readonly { readonly parameter: number; readonly gpu: number }[];
  readonly spareBytes: number;
}

function gatherOn(
  problem: PlanningProblem,
  { home, left, where, spareBytes }: Gathering,
): { parameter: number; gpu: number }[] {
  const there = new Set(where.filter(({ gpu }) => gpu === home).map(({ parameter }) => parameter));
  let room = spareBytes;
  const more: { parameter: number; gpu: number }[] = [];
  for (const parameter of left) {
    const bytes = problem.parameterBytes[parameter] ?? 0;
    if (there.has(parameter) || bytes > room) continue;
    room -= bytes;
    more.push({ parameter, gpu: home });
  }
  return [...where, ...more];
}

export function remainingBars(rows: readonly RemainingRow[]): Bar[] {
  // The same kernels on the same GPU are equal; sums in another order differ in the last bits.
  const isSlower = (ms: number, base: number): boolean => ms > base * (1 + 1e-9);
  const slower = rows.filter((row) => isSlower(row.oursMs, row.baseMs));
  const count = (of: (row: RemainingRow) => number): number =>
    rows.filter((row) => isSlower(of(row), row.baseMs)).length;
  return [
    barOf({
      id: "slower than one GPU, 0 to 100 % remaining",
      unit: "cases",
      paper: 1,
      target: exactly(0),
      got: slower.length,
      note:
        slower.map((row) => `${row.model} at ${row.sharePercent} %`).join(", ") ||
        `${rows.length} cases; parameters are gathered on one GPU after a run`,
    }),
    barOf({
      id: "the same without gathering",
      unit: "cases",
      target: REPORTED,
      got: count((row) => row.knowingMs),
    }),
    barOf({
      id: "the same with the cold plan again",
      unit: "cases",
      paper: 1,
      target: REPORTED,
      got: count((row) => row.againMs),
    }),
  ];
}

export function remainingTable(rows: readonly RemainingRow[]): BenchTable {
  return {
    title: "Remaining parameters on the V100 server, shape (1, 32), ms",
    columns: ["model, share", "one GPU", "ours", "not gathered", "cold plan again"],
    rows: rows.map((row) => [
      `${row.model} ${row.sharePercent} %`,
      ...[row.baseMs, row.oursMs, row.knowingMs, row.againMs].map((ms) => ms.toFixed(2)),
    ]),
  };
}
