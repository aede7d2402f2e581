/**
 * @file What a job trains, as its request says it to those who price places: the keys of the job file that the plan of its lease is made from.
 *
 * It is a text that the ledger carries and does not read. A profile of operators is too long for a request, so such a job says nothing.
 */

import type { JobSpec } from "./job.ts";

/** With a `config.json` of a large model some 700. */
export const MAX_TRAINING_CHARS = 2_000;

type TrainingPart = Pick<
  JobSpec,
  "class" | "gang" | "array" | "model" | "modelConfig" | "modelProfile" | "batch" | "sequence"
> &
  Pick<JobSpec, "framework">;

/** Undefined for a job whose place makes no difference to a plan, or that says too little of its model. */
export function trainingText(spec: TrainingPart): string | undefined {
  const { model, modelConfig, batch, sequence, framework } = spec;
  const isPlanned =
    spec.class === "training" &&
    spec.array === undefined &&
    spec.modelProfile === undefined &&
    spec.gang.gpus > 1 &&
    batch !== undefined &&
    (model !== undefined || modelConfig !== undefined);
  if (!isPlanned) return undefined;
  const text = JSON.stringify({
    ...(modelConfig === undefined ? { model } : { modelConfig }),
    batch,
    sequence,
    framework,
  });
  return text.length > MAX_TRAINING_CHARS ? undefined : text;
}
