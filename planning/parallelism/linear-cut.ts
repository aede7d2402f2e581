/**
 * @file The best pipeline whose stages are runs of one order of the operators, and the orders that are worth it.
 *
 * Every pipeline is runs of some order in which data goes forward, and every such order gives pipelines. For one order the best is exact: dynamic
 * programming over the end of each stage, min over beginnings of max(stages before, this stage).
 * Cost: O(stages × operators × operators in a stage).
 */

import type { Random } from "../../lib/random.ts";
import type { PipelineGraph } from "./pipeline-graph.ts";
import {
  bottleneckOf,
  heldBytes,
  SUM_EPSILON,
  type PipelineCut,
  type PipelineTask,
} from "./pipeline-stages.ts";

/** `order`: the operators so that every edge goes forward. Undefined where no runs hold in memory. */
export function linearCut(task: PipelineTask, order: readonly number[]): PipelineCut | undefined {
  const { stages } = task;
  const count = order.length;
  if (count < stages.length) return undefined;
  const work = sumsOf(order, (operator) => task.graph.workMs[operator] ?? 0);
  const crossing = crossingOf(task.graph, order);
  let best = new Float64Array(count + 1).fill(Infinity);
  best[0] = 0;
  const begins: Int32Array[] = [];
  for (const [stage, { speed, memoryBytes, msPerByte }] of stages.entries()) {
    const held = sumsOf(order, (operator) => heldBytes(task, operator, stage));
    const room = memoryBytes * (1 + SUM_EPSILON);
    const backRate = stages[stage - 1]?.msPerByte ?? 0;
    const aheadRate = stage === stages.length - 1 ? 0 : msPerByte;
    const next = new Float64Array(count + 1).fill(Infinity);
    const begin = new Int32Array(count + 1).fill(-1);
    const left = stages.length - stage - 1;
    for (let end = stage + 1; end <= count - left; end += 1) {
      const ahead = (crossing[end] ?? 0) * aheadRate;
      for (let from = end - 1; from >= stage; from -= 1) {
        const ms = ((work[end] ?? 0) - (work[from] ?? 0)) / speed + ahead;
        if (ms >= (next[end] ?? 0) || (held[end] ?? 0) - (held[from] ?? 0) > room) break;
        const all = Math.max(best[from] ?? 0, ms + (crossing[from] ?? 0) * backRate);
        if (all >= (next[end] ?? 0)) continue;
        next[end] = all;
        begin[end] = from;
      }
    }
    begins.push(begin);
    best = next;
  }
  if (best[count] === Infinity) return undefined;
  const stageOf = new Int32Array(count);
  let end = count;
  for (let stage = stages.length - 1; stage >= 0; stage -= 1) {
    const from = begins[stage]?.[end] ?? 0;
    for (let at = from; at < end; at += 1) stageOf[order[at] ?? 0] = stage;
    end = from;
  }
  return { stageOf, bottleneckMs: bottleneckOf(task, stageOf) };
}

/** Sums over the first operators of an order. */
function sumsOf(order: readonly number[], of: (operator: number) => number): Float64Array {
  const sums = new Float64Array(order.length + 1);
  for (const [at, operator] of order.entries()) sums[at + 1] = (sums[at] ?? 0) + of(operator);
  return sums;
}

/** Bytes of the tensors that are made or read on both sides of each place: entry n is behind the first n operators. */
export function crossingOf(graph: PipelineGraph, order: readonly number[]): Float64Array {
  const places = new Int32Array(order.length);
  for (const [place, operator] of order.entries()) places[operator] = place;
  const change = new Float64Array(order.length + 1);
  for (const { ends, bytes } of graph.tensors) {
    let [first, last] = [Infinity, -1];
    for (const end of ends) {
      first = Math.min(first, places[end] ?? 0);
      last = Math.max(last, places[end] ?? 0);
    }
    change[first + 1] = (change[first + 1] ?? 0) + bytes;
    change[last + 1] = (change[last + 1] ?? 0) - bytes;
  }
  for (let place = 1; place <= order.length; place += 1)
    change[place] = (change[place] ?? 0) + (change[place - 1] ?? 0);
  // Rounding may leave a little behind the last reader.
  return change.map((bytes) => Math.max(0, bytes));
}

/** Of the operators that are ready, the one with the least rank comes next; `places` has those of the operators before it. */
type Rank = (operator: number, places: Int32Array) => number;

/** An order in which every edge goes forward; ties go to the lower number. */
export function orderBy(graph: PipelineGraph, rank: Rank): readonly number[] {
  const missing = Int32Array.from(graph.before, ({ length }) => length);
  const ready = [...missing.keys()].filter((operator) => missing[operator] === 0);
  const order: number[] = [];
  const places = new Int32Array(missing.length);
  while (ready.length > 0) {
    let [chosen, least] = [0, Infinity];
    for (const [at, operator] of ready.entries()) {
      const value = rank(operator, places);
      const isLess = value < least || (value === least && operator < (ready[chosen] ?? 0));
      if (isLess) [chosen, least] = [at, value];
    }
    const [operator = 0] = ready.splice(chosen, 1);
    places[operator] = order.length;
    order.push(operator);
    for (const later of graph.after[operator] ?? []) {
      missing[later] = (missing[later] ?? 0) - 1;
      if (missing[later] === 0) ready.push(later);
    }
  }
  return order;
}

/**
 * Orders to begin with: by number, by depth from the inputs and from the outputs, those that finish a branch before the next one is begun, and drawn ones of that kind.
 */
export function firstOrders(
  task: PipelineTask,
  random: Random,
  drawn: number,
): readonly (readonly number[])[] {
  const { before, after } = task.graph;
  const byNumber = orderBy(task.graph, (operator) => operator);
  const depth = new Int32Array(before.length);
  for (const operator of byNumber)
    for (const other of before[operator] ?? [])
      depth[operator] = Math.max(depth[operator] ?? 0, (depth[other] ?? 0) + 1);
  const height = new Int32Array(before.length);
  for (const operator of [...byNumber].reverse())
    for (const other of after[operator] ?? [])
      height[operator] = Math.max(height[operator] ?? 0, (height[other] ?? 0) + 1);
  return [
    byNumber,
    orderBy(task.graph, (operator) => depth[operator] ?? 0),
    orderBy(task.graph, (operator) => -(height[operator] ?? 0)),
    branchwise(task, () => 0),
    ...Array.from({ length: drawn }, () => branchwise(task, () => random.unit())),
  ];
}

/** Depth first: an operator follows the one that made it ready last. */
function branchwise(task: PipelineTask, draw: () => number): readonly number[] {
  const { before } = task.graph;
  const luck = Float64Array.from(before, draw);
  return orderBy(task.graph, (operator, places) => {
    let last = -1;
    for (const other of before[operator] ?? []) last = Math.max(last, places[other] ?? 0);
    return (luck[operator] ?? 0) - last;
  });
}
