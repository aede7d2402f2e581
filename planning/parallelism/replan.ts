/**
 * @file Plans a job that has run before: the degrees of its former plan stay unless others save enough.
 *
 * A run that goes on in another split reads its checkpoint in another split, and may have to convert it; so its degrees change only where the predicted step is
 * shorter by more than `LEAST_SAVING` than that of the best plan in the former degrees, for which as much is tried. Micro-batch, stages and arrangement
 * are free. Cost: a second plan, of fixed degrees, where the former are not the best.
 */

import type { PlannedDegrees } from "../../domain/lease/launch-extras.ts";
import { planModel, type PlannedModel } from "./plan-operators.ts";
import type { PlanRequest } from "./plan.ts";
import { contextDegree, expertDegree, type Split } from "./split.ts";

export const LEAST_SAVING = 0.05;

export interface Replanned extends PlannedModel {
  /** Of the step, by other degrees than the former; absent where the former are the best, do not fit any more, or there were none. */
  readonly saving?: number;
  readonly isKept: boolean;
}

export async function replan(
  request: PlanRequest,
  former: PlannedDegrees | undefined,
  mayGoOn?: () => boolean,
): Promise<Replanned> {
  const free = await planModel(request, mayGoOn);
  const { answer } = free;
  if (former === undefined || answer.kind === "blocked") return { ...free, isKept: false };
  const { split, stepMs } = answer.plan;
  if (isOf(split, former)) return { ...free, isKept: false };
  const { contextParallel: contexts = 1, virtualStages } = former;
  const fixed = {
    replicas: former.dataParallel * contexts,
    stages: former.pipelineParallel,
    width: former.tensorParallel,
    experts: former.expertParallel,
    contexts,
    ...(virtualStages !== undefined && { runs: virtualStages }),
  };
  const kept = await planModel({ ...request, fixed }, mayGoOn);
  if (kept.answer.kind === "blocked") return { ...free, isKept: false };
  const saving = Math.max(0, 1 - stepMs / kept.answer.plan.stepMs);
  return saving > LEAST_SAVING
    ? { ...free, saving, isKept: false }
    : { ...kept, saving, isKept: true };
}

const isOf = (split: Split, former: PlannedDegrees): boolean =>
  split.replicas === former.dataParallel * contextDegree(split) &&
  contextDegree(split) === (former.contextParallel ?? 1) &&
  (split.runs ?? 1) === (former.virtualStages ?? split.runs ?? 1) &&
  split.stages === former.pipelineParallel &&
  split.width === former.tensorParallel &&
  expertDegree(split) === former.expertParallel;
