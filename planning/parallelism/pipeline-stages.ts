/**
 * @file The stages that operators are cut into, what each costs, and the check of a cut.
 *
 * A cut is a stage for each operator that never falls along an edge; so the stages are in the order of their data, and no data goes round in a
 * circle between them. A stage takes its work ÷ speed and its sends: activations over the border behind it, gradients over the one before it.
 * It holds what its parameters take once, and its outputs for each micro-batch in flight.
 */

import type { PipelineGraph } from "./pipeline-graph.ts";

export interface StageRoom {
  /** Work takes `workMs` ÷ this. */
  readonly speed: number;
  readonly memoryBytes: number;
  /** Of its outputs, kept at once. */
  readonly inFlight: number;
  /** For a tensor over the border to the next stage; not read of the last stage. */
  readonly msPerByte: number;
}

export interface PipelineTask {
  readonly graph: PipelineGraph;
  readonly stages: readonly StageRoom[];
  /** Bytes held for a byte of parameters: weights, gradients, optimiser. */
  readonly heldPerParameterByte: number;
}

export interface PipelineCut {
  /** The stage of each operator, from 0. */
  readonly stageOf: Int32Array;
  /** Of the slowest stage. */
  readonly bottleneckMs: number;
}

/** Rounding of sums that were added in another order; relative. */
export const SUM_EPSILON = 1e-9;

export const heldBytes = (
  { graph, stages, heldPerParameterByte }: PipelineTask,
  operator: number,
  stage: number,
): number =>
  heldPerParameterByte * (graph.parameterBytes[operator] ?? 0) +
  (stages[stage]?.inFlight ?? 1) * (graph.keptBytes[operator] ?? 0);

export interface StageSums {
  readonly workMs: Float64Array;
  readonly heldBytes: Float64Array;
  readonly operators: Int32Array;
  /** Over the border behind each stage. */
  readonly borderBytes: Float64Array;
}

export function stageSums(task: PipelineTask, stageOf: Int32Array): StageSums {
  const { graph, stages } = task;
  const sums: StageSums = {
    workMs: new Float64Array(stages.length),
    heldBytes: new Float64Array(stages.length),
    operators: new Int32Array(stages.length),
    borderBytes: new Float64Array(stages.length),
  };
  for (const [operator, stage] of stageOf.entries()) {
    sums.workMs[stage] = (sums.workMs[stage] ?? 0) + (graph.workMs[operator] ?? 0);
    sums.heldBytes[stage] = (sums.heldBytes[stage] ?? 0) + heldBytes(task, operator, stage);
    sums.operators[stage] = (sums.operators[stage] ?? 0) + 1;
  }
  for (const { ends, bytes } of graph.tensors) {
    const [first, last] = spanOf(ends, stageOf);
    for (let stage = first; stage < last; stage += 1)
      sums.borderBytes[stage] = (sums.borderBytes[stage] ?? 0) + bytes;
  }
  return sums;
}

/** The first and the last stage of a tensor's ends. */
export function spanOf(
  ends: readonly number[],
  stageOf: Int32Array,
): readonly [first: number, last: number] {
  let [first, last] = [Infinity, -1];
  for (const end of ends) {
    const stage = stageOf[end] ?? 0;
    if (stage < first) first = stage;
    if (stage > last) last = stage;
  }
  return [first, last];
}

export function stageMs({ stages }: PipelineTask, sums: StageSums, stage: number): number {
  const ahead = (sums.borderBytes[stage] ?? 0) * (stages[stage]?.msPerByte ?? 0);
  const back =
    stage === 0 ? 0 : (sums.borderBytes[stage - 1] ?? 0) * (stages[stage - 1]?.msPerByte ?? 0);
  return (sums.workMs[stage] ?? 0) / (stages[stage]?.speed ?? 1) + ahead + back;
}

export function bottleneckOf(task: PipelineTask, stageOf: Int32Array): number {
  const sums = stageSums(task, stageOf);
  return Math.max(...task.stages.map((_, stage) => stageMs(task, sums, stage)));
}

/** The fault of a cut; undefined of one that is a pipeline. */
export function checkPipeline(task: PipelineTask, cut: PipelineCut): string | undefined {
  const { graph, stages } = task;
  const { stageOf } = cut;
  if (stageOf.length !== graph.members.length)
    return `${stageOf.length} operators have a stage, of ${graph.members.length}`;
  for (const [operator, stage] of stageOf.entries()) {
    if (stages[stage] === undefined)
      return `operator ${operator} is in stage ${stage} of ${stages.length}`;
    for (const later of graph.after[operator] ?? [])
      if ((stageOf[later] ?? 0) < stage)
        return `operator ${later} of stage ${stageOf[later] ?? "?"} needs operator ${operator} of stage ${stage}`;
  }
  const sums = stageSums(task, stageOf);
  for (const [stage, { memoryBytes }] of stages.entries()) {
    if (sums.operators[stage] === 0) return `stage ${stage} has no operator`;
    if ((sums.heldBytes[stage] ?? 0) > memoryBytes * (1 + SUM_EPSILON))
      return `stage ${stage} holds ${sums.heldBytes[stage] ?? 0} bytes of ${memoryBytes}`;
  }
  const bottleneckMs = bottleneckOf(task, stageOf);
  return Math.abs(bottleneckMs - cut.bottleneckMs) <= SUM_EPSILON * Math.max(1, bottleneckMs)
    ? undefined
    : `the slowest stage takes ${bottleneckMs} ms, not ${cut.bottleneckMs}`;
}
