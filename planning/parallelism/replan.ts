/**
 * @file Plans a job that has run before: the degrees of its former plan stay unless others save enough.
 *
 * A run that goes on in another split reads its checkpoint in another split, and may have to convert it; so its degrees change only where the predicted step is
 * shorter by more than `LEAST_SAVING`. Micro-batch, stages and arrangement are free. Cost: a second plan, of fixed degrees, where degrees stay that
 * are not the best.
 */

import type { PlannedDegrees } from "../../domain/lease/launch-extras.ts";
import { planModel, type PlannedModel } from "./plan-operators.ts";
import type { PlanRequest } from "./plan.ts";
import { expertDegree, type Split } from "./split.ts";

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
  const { split, stepMs, others } = answer.plan;
  const known = others.find((other) => isOf(other.split, former));
  if (isOf(split, former) || known === undefined) return { ...free, isKept: false };
  const saving = 1 - stepMs / known.stepMs;
  if (saving > LEAST_SAVING) return { ...free, saving, isKept: false };
  const { dataParallel, pipelineParallel, tensorParallel, expertParallel } = former;
  const fixed = {
    replicas: dataParallel,
    stages: pipelineParallel,
    width: tensorParallel,
    experts: expertParallel,
  };
  const kept = await planModel({ ...request, fixed }, mayGoOn);
  return kept.answer.kind === "blocked"
    ? { ...free, saving, isKept: false }
    : { ...kept, saving, isKept: true };
}

const isOf = (split: Split, former: PlannedDegrees): boolean =>
  split.replicas === former.dataParallel &&
  split.stages === former.pipelineParallel &&
  split.width === former.tensorParallel &&
  expertDegree(split) === former.expertParallel;
