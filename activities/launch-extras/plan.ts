/**
 * @file The provider of the plan part: how a training job's model is split over the GPUs of its lease.
 *
 * `ORBWEAVER_PLAN` names a JSON file on every host with degrees, stages, ranks and groups, for a launcher of Megatron-style
 * scripts. A shape that the job file says is planned here, a preset's or that of a `modelConfig`: a model file lies with the job's processes and not
 * with the workers. Counts of work bound the search.
 */

import { jobModel } from "../../domain/job/job-model.ts";
import { PLAN_VARIABLE } from "../../domain/lease/launch-extras.ts";
import { randomFrom } from "../../lib/random.ts";
import { fleetSite } from "../../planning/parallelism/fleet-site.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { planDocument, planLine } from "../../planning/parallelism/plan-document.ts";
import { planTraining } from "../../planning/parallelism/plan.ts";
import { solverFor } from "../../solvers/index.ts";
import type { LaunchExtrasProvider } from "./provider.ts";

export const PLAN_FILE = "plan.json";

const DEADLINE_MS = 15_000;

const assumedText = (assumed: readonly string[]): string =>
  assumed.length === 0 ? "" : `; assumed, since the fleet file does not say: ${assumed.join("; ")}`;

export const planProvider: LaunchExtrasProvider = {
  part: "plan",
  deadlineMs: DEADLINE_MS,
  async provide({ spec, gpus }, shape) {
    const { batch } = spec;
    const named = jobModel(spec);
    if (named === undefined || batch === undefined) return undefined;
    const model = presetModel(named.name, named.shape);
    const site = fleetSite(gpus, shape);
    if (site.hosts.length < gpus.length)
      throw new Error("the fleet no longer describes all hosts of the lease");
    const answer = await planTraining({
      model,
      site,
      batch,
      ...(spec.framework !== undefined && { framework: spec.framework }),
      random: randomFrom(1, "plan"),
      solver: solverFor,
    });
    if (answer.kind === "blocked") throw new Error(answer.message);
    const document = planDocument(answer.plan, site, model.shape);
    return {
      env: { [PLAN_VARIABLE]: `{files}/${PLAN_FILE}` },
      files: [{ name: PLAN_FILE, text: `${JSON.stringify(document)}\n` }],
      message: `plan of ${model.name}: ${planLine(answer.plan)}${assumedText(document.assumed)}`,
    };
  },
};
