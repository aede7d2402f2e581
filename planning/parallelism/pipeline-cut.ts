/**
 * @file Cuts a model's operators into the stages of a pipeline: the slowest stage as fast as possible, no circle between stages, memory held.
 *
 * The best runs of several orders of the operators are exact for those orders (linear-cut.ts). The best of them are annealed in stages
 * (anneal-pipeline.ts); what comes out is an order again, whose best runs may be better still. Without branches the first order is the only one,
 * and its runs are the optimum.
 * Source: SpiderFlow §4.2 cuts a graph without a direction; contiguous stages over ideals of the graph are Tarnawski et al. (NeurIPS 2020), and the
 * method here is ours. Cost: one dynamic programme an order, and `steps` annealing steps for each of `starts`. The same input gives the same
 * answer; ties go to the first found.
 */

import type { Random } from "../../lib/random.ts";
import { annealPipeline } from "./anneal-pipeline.ts";
import { firstOrders, linearCut, orderBy } from "./linear-cut.ts";
import { heldBytes, type PipelineCut, type PipelineTask } from "./pipeline-stages.ts";

export interface PipelineEffort {
  /** Orders that are drawn, beside the usual four. */
  readonly drawn: number;
  readonly starts: number;
  /** Of one annealing. */
  readonly steps: number;
}

/** The defaults of a request. */
export const PIPELINE_EFFORT: PipelineEffort = Object.freeze({
  drawn: 8,
  starts: 3,
  steps: 60_000,
});

export type PipelineAnswer =
  | { readonly kind: "cut"; readonly pick: PipelineCut; readonly stats: PipelineStats }
  | { readonly kind: "blocked"; readonly message: string };

export interface PipelineStats {
  /** The slowest stage of the best runs of the first orders; undefined where none fits. */
  readonly linearMs: number | undefined;
  readonly orders: number;
}

export interface PipelineRequest {
  readonly task: PipelineTask;
  readonly random: Random;
  readonly effort?: Partial<PipelineEffort>;
}

export function pipelineCut({ task, random, effort }: PipelineRequest): PipelineAnswer {
  const { drawn, starts, steps } = { ...PIPELINE_EFFORT, ...effort };
  const orders = isChain(task)
    ? [orderBy(task.graph, (operator) => operator)]
    : firstOrders(task, random.stream("orders"), drawn);
  const runs = (of: PipelineTask): PipelineCut[] =>
    orders
      .flatMap((order) => linearCut(of, order) ?? [])
      .sort((a, b) => a.bottleneckMs - b.bottleneckMs);
  const found = runs(task);
  // Where the runs of no order fit, annealing begins above the memory.
  const begun = found.length > 0 ? found : runs(withoutLimits(task));
  let best = found[0];
  if (orders.length > 1)
    for (const [at, start] of begun.slice(0, starts).entries()) {
      const annealed = annealPipeline(task, start.stageOf, {
        steps,
        random: random.stream(`anneal-${at}`),
      });
      if (annealed === undefined) continue;
      for (const cut of [annealed, straightened(task, annealed)])
        if (cut !== undefined && cut.bottleneckMs < (best?.bottleneckMs ?? Infinity)) best = cut;
    }
  if (best === undefined) return { kind: "blocked", message: shortfall(task) };
  const stats = { linearMs: found[0]?.bottleneckMs, orders: orders.length };
  return { kind: "cut", pick: best, stats };
}

const withoutLimits = (task: PipelineTask): PipelineTask => ({
  ...task,
  stages: task.stages.map((stage) => ({ ...stage, memoryBytes: Infinity })),
});

/** The best runs of an order in which the stages of a cut follow one another. */
function straightened(task: PipelineTask, { stageOf }: PipelineCut): PipelineCut | undefined {
  return linearCut(
    task,
    orderBy(task.graph, (operator) => stageOf[operator] ?? 0),
  );
}

/** Only one order lets every edge go forward. */
function isChain({ graph }: PipelineTask): boolean {
  const order = orderBy(graph, (operator) => operator);
  return order.every(
    (operator, at) => at === 0 || (graph.before[operator] ?? []).includes(order[at - 1] ?? -1),
  );
}

function shortfall(task: PipelineTask): string {
  const { graph, stages } = task;
  const count = graph.members.length;
  if (count < stages.length)
    return `${count} operators do not make ${stages.length} stages; take fewer stages`;
  let needed = 0;
  for (let operator = 0; operator < count; operator += 1)
    needed += heldBytes(task, operator, stages.length - 1);
  const room = stages.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
  const gib = (bytes: number): string => (bytes / 2 ** 30).toFixed(1);
  return (
    `no order of the operators found fits: they hold ${gib(needed)} GiB at least, and ${stages.length} stages have ${gib(room)} GiB; ` +
    "take more stages, larger cards, or a smaller micro-batch"
  );
}
