/**
 * @file The provider of the plan part: how a training job's model is split over the GPUs of its lease.
 *
 * `ORBWEAVER_PLAN` names a JSON file on every host: degrees, stages, ranks and groups, for a launcher of Megatron-style scripts. Only presets
 * are planned here: a file that a job names lies with its processes, not with the workers. The search is bounded by counts of work.
 */

import { modelPreset } from "../../domain/model-presets.ts";
import { randomFrom } from "../../lib/random.ts";
import { fleetSite } from "../../scheduling/plan/fleet-site.ts";
import { presetModel } from "../../scheduling/plan/models.ts";
import { planDocument, planLine } from "../../scheduling/plan/plan-document.ts";
import { planTraining } from "../../scheduling/plan/plan.ts";
import { solverFor } from "../../solvers/index.ts";
import type { OutfitProvider } from "./provider.ts";

export const PLAN_FILE = "plan.json";
export const PLAN_VARIABLE = "ORBWEAVER_PLAN";

const DEADLINE_MS = 15_000;

export const planProvider: OutfitProvider = {
  part: "plan",
  deadlineMs: DEADLINE_MS,
  async provide({ spec, gpus }, shape) {
    const { model: name, batch } = spec;
    const preset = name === undefined ? undefined : modelPreset(name);
    if (preset === undefined || batch === undefined) return undefined;
    const model = presetModel(...preset);
    const site = fleetSite(gpus, shape);
    if (site.hosts.length < gpus.length)
      throw new Error("the fleet no longer describes all hosts of the lease");
    const answer = await planTraining({
      model,
      site,
      batch,
      random: randomFrom(1, "plan"),
      solver: solverFor,
    });
    if (answer.kind === "blocked") throw new Error(answer.message);
    const document = planDocument(answer.plan, site, model.shape);
    return {
      env: { [PLAN_VARIABLE]: `{files}/${PLAN_FILE}` },
      files: [{ name: PLAN_FILE, text: `${JSON.stringify(document)}\n` }],
      message: `plan of ${model.name}: ${planLine(answer.plan)}`,
    };
  },
};
