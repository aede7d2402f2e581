/**
 * @file The provider of the inference part: plans a served model for the GPUs of its lease on a solver worker before the start.
 *
 * A gang that was degraded or moved gets a new plan, because every run gets new launch extras. The model is read on the worker
 * by its path on the hosts; where the file is missing, the host plans for itself when it starts.
 */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { popCount } from "../../domain/lease/lease.ts";
import { SERVING_ENV } from "../../domain/job/serving-env.ts";
import { servingPlanLine, servingPlanText } from "../../domain/model/serving-plan.ts";
import { planInThread } from "../serving-planner-port.ts";
import type { LaunchExtrasProvider } from "./provider.ts";

const PLAN_FILE = "serving-plan.json";
const DEADLINE_MS = 60_000;
/** Share of the deadline for timing the operators, and again for timing the parts. */
const TIMING_MS = 10_000;

export const inferenceProvider: LaunchExtrasProvider = {
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
