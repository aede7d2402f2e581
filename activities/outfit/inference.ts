/**
 * @file The plan of a served model for the GPUs that its job was granted, made before the start on a solver worker.
 *
 * A gang that was degraded or moved gets a plan of its own, because every run is fitted out anew. The model is read where the
 * worker runs, by the path that the hosts have; where it is not to be had the host plans for itself when it starts.
 */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { popCount } from "../../domain/lease.ts";
import { SERVING_ENV } from "../../domain/serving-env.ts";
import { servingPlanLine, servingPlanText } from "../../domain/serving-plan.ts";
import { planInThread } from "../serving-planner-port.ts";
import type { OutfitProvider } from "./provider.ts";

const PLAN_FILE = "serving-plan.json";
const DEADLINE_MS = 60_000;
/** Of the deadline, what timing the operators may take, and as much again timing the parts. */
const TIMING_MS = 10_000;

export const inferenceProvider: OutfitProvider = {
  part: "inference",
  deadlineMs: DEADLINE_MS,
  async provide({ spec, gpus }, _shape, signal) {
    const { model, run } = spec;
    if (model === undefined) return undefined;
    const file = resolve(run.workdir ?? "/", model);
    if (!existsSync(file)) {
      throw new Error(`${file} is not on the machine that plans; the host plans when it starts`);
    }
    const count = gpus.reduce((sum, { mask }) => sum + popCount(mask), 0);
    const answer = await planInThread(
      { file, gpus: count, options: { budgetMs: TIMING_MS } },
      signal,
    );
    if (answer.kind === "refused") throw new Error(answer.message);
    return {
      env: { [SERVING_ENV.plan]: `{files}/${PLAN_FILE}` },
      files: [{ name: PLAN_FILE, text: servingPlanText(answer.plan) }],
      message: servingPlanLine(answer.plan),
    };
  },
};
