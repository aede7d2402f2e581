/**
 * @file Improves a pipeline by moving operators to neighbouring stages, annealed, so that every state on the way is a pipeline.
 *
 * A move takes one operator one stage on or back, and with it what must not stay: of its own stage the operators after it (on) or before it (back),
 * `MOST_MOVED` at most; some steps exchange two. What is lessened is the norm of the stages' times with exponent `SHARPNESS`, near to the slowest stage but not blind to
 * the others; a stage above its memory counts as slower by `OVERLOAD` times its excess, and an empty one is never left.
 * Cost: one step is O(operators moved × their tensors' ends + stages).
 */

import type { Random } from "../../lib/random.ts";
import {
  bottleneckOf,
  heldBytes,
  spanOf,
  stageMs,
  stageSums,
  SUM_EPSILON,
  type PipelineCut,
  type PipelineTask,
} from "./pipeline-stages.ts";

const MOST_MOVED = 40;
/** Share of the steps that move another operator the other way. */
const EXCHANGES = 0.4;
const SHARPNESS = 12;
const OVERLOAD = 1.5;
/** Shares of the energy. */
const HOTTEST = 0.2;
const COLDEST = 0.0005;

/** The start may hold too much; undefined where every state on the way did. */
export function annealPipeline(
  task: PipelineTask,
  start: Int32Array,
  { steps, random }: { readonly steps: number; readonly random: Random },
): PipelineCut | undefined {
  const { graph, stages } = task;
  const stageOf = start.slice();
  const sums = stageSums(task, stageOf);
  const tensorsOf: number[][] = graph.members.map(() => []);
  for (const [tensor, { ends }] of graph.tensors.entries())
    for (const end of ends) tensorsOf[end]?.push(tensor);
  const times = new Float64Array(stages.length);
  const startMs = bottleneckOf(task, start);
  const scale = startMs > 0 ? startMs : 1;
  let best: PipelineCut | undefined;
  let energy = energyNow();
  keepBest();
  for (let step = 0; step < steps; step += 1) {
    const heat = HOTTEST * (COLDEST / HOTTEST) ** (step / steps);
    const operator = random.below(stageOf.length);
    const by = random.unit() < 0.5 ? 1 : -1;
    const from = stageOf[operator] ?? 0;
    const moved = moveOf(operator, by);
    if (random.unit() < EXCHANGES && moved.length > 0) {
      const other = random.below(stageOf.length);
      if (stageOf[other] === from + by) moved.push(...moveOf(other, -by));
    }
    if (moved.length === 0) continue;
    const next = energyNow();
    const isTaken =
      sums.operators.every((count) => count > 0) &&
      (next <= energy || random.unit() < Math.exp((energy - next) / (heat * energy)));
    if (isTaken) {
      energy = next;
      keepBest();
    } else for (const [each, stage] of moved.reverse()) shift(each, stage);
  }
  return best && { stageOf: best.stageOf, bottleneckMs: bottleneckOf(task, best.stageOf) };

  /** Moves an operator, and those of its stage that it would otherwise overtake; each with its stage before, and none where they are too many. */
  function moveOf(operator: number, by: number): (readonly [operator: number, from: number])[] {
    const from = stageOf[operator] ?? 0;
    if (stages[from + by] === undefined) return [];
    const links = by > 0 ? graph.after : graph.before;
    const moved = [operator];
    for (const each of moved)
      for (const other of links[each] ?? []) {
        if (stageOf[other] !== from || moved.includes(other)) continue;
        if (moved.length === MOST_MOVED) return [];
        moved.push(other);
      }
    for (const each of moved) shift(each, from + by);
    return moved.map((each) => [each, from] as const);
  }

  function shift(operator: number, to: number): void {
    const from = stageOf[operator] ?? 0;
    for (const tensor of tensorsOf[operator] ?? []) count(tensor, -1);
    stageOf[operator] = to;
    for (const tensor of tensorsOf[operator] ?? []) count(tensor, 1);
    const work = graph.workMs[operator] ?? 0;
    sums.workMs[from] = (sums.workMs[from] ?? 0) - work;
    sums.workMs[to] = (sums.workMs[to] ?? 0) + work;
    sums.heldBytes[from] = (sums.heldBytes[from] ?? 0) - heldBytes(task, operator, from);
    sums.heldBytes[to] = (sums.heldBytes[to] ?? 0) + heldBytes(task, operator, to);
    sums.operators[from] = (sums.operators[from] ?? 0) - 1;
    sums.operators[to] = (sums.operators[to] ?? 0) + 1;
  }

  function count(tensor: number, sign: number): void {
    const { ends, bytes } = graph.tensors[tensor] ?? { ends: [], bytes: 0 };
    const [first, last] = spanOf(ends, stageOf);
    for (let stage = first; stage < last; stage += 1)
      sums.borderBytes[stage] = (sums.borderBytes[stage] ?? 0) + sign * bytes;
  }

  function energyNow(): number {
    let total = 0;
    for (let stage = 0; stage < stages.length; stage += 1) {
      const ms = stageMs(task, sums, stage) / scale;
      times[stage] = ms;
      const { memoryBytes = Infinity } = stages[stage] ?? {};
      const excess = Math.max(0, (sums.heldBytes[stage] ?? 0) / memoryBytes - 1);
      total += (ms + (excess > SUM_EPSILON ? OVERLOAD * excess : 0)) ** SHARPNESS;
    }
    return total ** (1 / SHARPNESS);
  }

  function keepBest(): void {
    const slowest = scale * Math.max(...times);
    if (best !== undefined && slowest >= best.bottleneckMs * (1 - SUM_EPSILON)) return;
    for (const [stage, { memoryBytes }] of stages.entries())
      if ((sums.heldBytes[stage] ?? 0) > memoryBytes * (1 + SUM_EPSILON)) return;
    best = { stageOf: stageOf.slice(), bottleneckMs: slowest };
  }
}
