/**
 * @file The time of every operator of a model, from a profile of optimised runs with one thread, as in production.
 *
 * The optimiser fuses operators, and names the result after one of them or after what it makes; the time goes to the operator of
 * the fused chain that does most arithmetic, the others have 0. Each operator has its median over the runs; together they have
 * the time of a run without a profile (the median of runs in a row): the runtime's own work between operators is part of
 * theirs.
 */

import { median } from "../../lib/median.ts";
import { operatorCost, type ShapeOf } from "./onnx-costs.ts";
import type { Feeds } from "./onnx-feeds.ts";
import { indexIn, markedModel, profiled } from "./onnx-marks.ts";
import type { OnnxModel } from "./onnx-model.ts";
import { openOnnx, type OnnxSession, type ProfileEvent } from "./onnx-session.ts";

interface OperatorTimes {
  /** By index of the operator. */
  readonly operatorMs: readonly number[];
  /** One run of the whole model, median. */
  readonly runMs: number;
}

const WARM_UP_RUNS = 2;
const DEFAULT_BUDGET_MS = 20_000;

export interface Timing {
  readonly feeds: Feeds;
  readonly timedRuns: number;
  /** Runs go on for so long at least: a processor takes a while to get to its pace, and short runs scatter. */
  readonly leastMs?: number;
  readonly budgetMs?: number;
}

export async function operatorTimes(
  model: OnnxModel,
  shapeOf: ShapeOf,
  { feeds, timedRuns, leastMs = 0, budgetMs = DEFAULT_BUDGET_MS }: Timing,
): Promise<OperatorTimes> {
  const marked = markedModel(model, []);
  const inTurn = (session: OnnxSession): Promise<readonly number[]> =>
    timedMs(session, feeds, { runs: timedRuns, leastMs, budgetMs: budgetMs / 2 });
  const plain = await openOnnx(marked);
  let runMs: number;
  try {
    runMs = median(await inTurn(plain));
  } finally {
    await plain.release();
  }
  const events = await profiled(marked, "all", async (session) => void (await inTurn(session)));
  const runs = runsOf(events).slice(WARM_UP_RUNS);
  const placeOf = placeFinder(model);
  const times = model.operators.map(() => new Array<number>(runs.length).fill(0));
  const kernels = model.operators.map(() => 0);
  runs.forEach((run, which) => {
    let waitingUs = 0;
    for (const { name, dur } of run) {
      const place = placeOf(name);
      const row = times[place ?? -1];
      if (place === undefined || row === undefined) {
        // A change of layout that the runtime has put before the next operator.
        waitingUs += dur;
        continue;
      }
      row[which] = (row[which] ?? 0) + dur + waitingUs;
      waitingUs = 0;
      if (which === 0) kernels[place] = (kernels[place] ?? 0) + 1;
    }
  });
  const kernelMs = times.map((row) => (row.length === 0 ? 0 : median(row) / 1_000));
  const operatorMs = spreadOver(kernelMs, kernels, runMs);
  return { runMs, operatorMs: atTheirHeads(model, shapeOf, operatorMs) };
}

/** Which operator an event is of: it carries the mark, or the name of a value that the operator makes (of layout changes). */
function placeFinder({ operators }: OnnxModel): (event: string) => number | undefined {
  const makerOf = new Map(
    operators.flatMap(({ outputs }, index) => outputs.map((name) => [name, index] as const)),
  );
  return (event) => indexIn(event) ?? makerOf.get(event.replace(BLOCKED_LAYOUT, ""));
}

/** What the runtime appends to the name of a value when it makes it in blocks of channels. */
const BLOCKED_LAYOUT = /_nchwc(_token_\d+)?_kernel_time$/;

/** Moves a time up a chain of fused operators, while the one before has none of its own, no other reader, and more arithmetic. */
function atTheirHeads(
  { operators, outputs }: OnnxModel,
  shapeOf: ShapeOf,
  operatorMs: readonly number[],
): readonly number[] {
  const times = [...operatorMs];
  const makerOf = new Map<string, number>();
  const readers = new Map<string, number>();
  operators.forEach(({ inputs, captures, outputs: makes }, index) => {
    for (const name of makes) makerOf.set(name, index);
    for (const name of [...inputs, ...captures]) readers.set(name, (readers.get(name) ?? 0) + 1);
  });
  for (const { name } of outputs) readers.set(name, (readers.get(name) ?? 0) + 1);
  for (let index = operators.length - 1; index >= 0; index -= 1) {
    const operator = operators[index];
    const before = operator?.inputs
      .filter((name) => readers.get(name) === 1)
      .flatMap((name) => makerOf.get(name) ?? [])
      .find((maker) => times[maker] === 0);
    const former = operators[before ?? -1];
    if (operator === undefined || former === undefined || before === undefined) continue;
    if (operatorCost(former, shapeOf).flops < operatorCost(operator, shapeOf).flops) continue;
    times[before] = times[index] ?? 0;
    times[index] = 0;
  }
  return times;
}

/**
 * Times in ms that sum to `runMs`: what the kernels did not take is shared by all that ran, alike; when the profile itself has
 * cost time, all shrink alike.
 */
function spreadOver(
  kernelMs: readonly number[],
  kernels: readonly number[],
  runMs: number,
): readonly number[] {
  const sumMs = kernelMs.reduce((sum, ms) => sum + ms, 0);
  const ranCount = Math.max(
    1,
    kernels.reduce((sum, count) => sum + count, 0),
  );
  const restMs = runMs - sumMs;
  if (restMs < 0) return kernelMs.map((ms) => (ms * runMs) / sumMs);
  return kernelMs.map((ms, index) => ms + (restMs * (kernels[index] ?? 0)) / ranCount);
}

/** The kernels of each run; the event of a run comes after those of its operators. */
function runsOf(events: readonly ProfileEvent[]): readonly (readonly ProfileEvent[])[] {
  const runs: ProfileEvent[][] = [];
  let run: ProfileEvent[] = [];
  for (const event of events) {
    if (event.cat === "Node" && event.name.endsWith("_kernel_time")) run.push(event);
    else if (event.cat === "Session" && event.name === "model_run") {
      runs.push(run);
      run = [];
    }
  }
  return runs;
}

interface TimedRuns {
  readonly runs: number;
  readonly leastMs: number;
  readonly budgetMs: number;
}

/** The time of each run after the first few, in ms. */
async function timedMs(
  session: OnnxSession,
  { values }: Feeds,
  { runs, leastMs, budgetMs }: TimedRuns,
): Promise<readonly number[]> {
  const timesMs: number[] = [];
  const startMs = performance.now();
  let spentMs = 0;
  for (let run = 0; run < WARM_UP_RUNS + runs || spentMs < leastMs; run += 1) {
    const fromMs = performance.now();
    await session.run(values);
    const nowMs = performance.now();
    if (run >= WARM_UP_RUNS) timesMs.push(nowMs - fromMs);
    spentMs = nowMs - startMs;
    if (timesMs.length > 0 && spentMs > budgetMs) break;
  }
  return timesMs;
}
