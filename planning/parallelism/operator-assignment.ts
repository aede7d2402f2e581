/**
 * @file The stage and the GPUs of each operator of a planned model, as the JSON document that a launcher or a splitter of graphs reads.
 *
 * Operators stand in an order in which data goes forward, so stages do not fall along it, and no stage waits for a later one.
 */

import type { PlanModel } from "./models.ts";
import { planDocument } from "./plan-document.ts";
import type { TrainingPlan } from "./plan.ts";
import type { PlanSite } from "./site.ts";

export interface OperatorAssignment {
  readonly version: 1;
  readonly model: string;
  readonly dataParallel: number;
  readonly pipelineParallel: number;
  readonly microBatch: number;
  readonly microBatches: number;
  readonly stages: readonly {
    readonly stage: number;
    /** `host:index` of the stage's GPU in each replica, in the replicas' order; the index counts the host's planned GPUs. */
    readonly gpus: readonly string[];
    readonly memoryGiB: number;
  }[];
  readonly operators: readonly {
    /** As the graph's file names it. */
    readonly id: string;
    readonly name: string;
    readonly stage: number;
    readonly gpus: readonly string[];
  }[];
}

/** Undefined of a model that is no profiled graph. */
export function operatorAssignment(
  { layers, profiled }: PlanModel,
  plan: TrainingPlan,
  site: PlanSite,
): OperatorAssignment | undefined {
  if (profiled === undefined) return undefined;
  const { ranks, ...document } = planDocument(plan, site, undefined);
  const firstRanks = new Map<string, number>();
  for (const { host, rank } of ranks)
    firstRanks.set(host, Math.min(rank, firstRanks.get(host) ?? Infinity));
  const stages = document.stages.map(({ memoryGiB }, stage) => ({
    stage,
    gpus: ranks
      .filter((rank) => rank.stage === stage)
      .sort((a, b) => a.replica - b.replica)
      .map(({ host, rank }) => `${host}:${rank - (firstRanks.get(host) ?? 0)}`),
    memoryGiB,
  }));
  const operators = plan.stages.flatMap(({ runs: [[from, to] = [0, 0]] }, stage) =>
    layers
      .slice(from, to)
      .flatMap((layer) => layer.operators ?? [])
      .flatMap((operator) => profiled.operators.members[operator] ?? [])
      .flatMap((node) => {
        const found = profiled.graph.nodes[node];
        const gpus = stages[stage]?.gpus ?? [];
        return found === undefined ? [] : [{ id: found.id, name: found.name, stage, gpus }];
      }),
  );
  const { model, dataParallel, pipelineParallel, microBatch, microBatches } = document;
  return {
    version: 1,
    ...{ model, dataParallel, pipelineParallel, microBatch, microBatches },
    stages,
    operators,
  };
}
