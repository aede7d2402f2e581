/**
 * @file The provider of the plan part: how a training job's model is split over the GPUs of its lease.
 *
 * `ORBWEAVER_PLAN` names a JSON file on every host with degrees, stages, ranks and groups, for a launcher of Megatron-style
 * scripts. What the job file says of the model is planned here, a preset's shape, that of a `modelConfig` or a `modelProfile`: a model file lies with
 * the job's processes and not with the workers. Of a profiled model it has the stage of each operator too. Counts of work bound the search;
 * operators are cut anew while there is time.
 */

import type { JobSpec } from "../../domain/job/job.ts";
import { jobModel } from "../../domain/job/job-model.ts";
import { PLAN_VARIABLE } from "../../domain/lease/launch-extras.ts";
import { randomFrom } from "../../lib/random.ts";
import { fleetSite } from "../../planning/parallelism/fleet-site.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { planDocument, planLine } from "../../planning/parallelism/plan-document.ts";
import type { PlanModel } from "../../planning/parallelism/models.ts";
import { operatorAssignment } from "../../planning/parallelism/operator-assignment.ts";
import { planModel } from "../../planning/parallelism/plan-operators.ts";
import { problemText } from "../../domain/values/problem.ts";
import { solverFor } from "../../solvers/index.ts";
import { readPackedProfile } from "./packed-profile.ts";
import type { LaunchExtrasProvider } from "./provider.ts";

export const PLAN_FILE = "plan.json";

const DEADLINE_MS = 15_000;
/** A cut takes a second or two, and must not cost the run its plan. */
const CUTS_MS = 5_000;

const assumedText = (assumed: readonly string[]): string =>
  assumed.length === 0 ? "" : `; assumed, since the fleet file does not say: ${assumed.join("; ")}`;

export const planProvider: LaunchExtrasProvider = {
  part: "plan",
  deadlineMs: DEADLINE_MS,
  async provide({ spec, gpus }, shape) {
    const { batch } = spec;
    if (batch === undefined) return undefined;
    const said = modelOf(spec);
    if (said === undefined) return undefined;
    const site = fleetSite(gpus, shape);
    if (site.hosts.length < gpus.length)
      throw new Error("the fleet no longer describes all hosts of the lease");
    const startedMs = performance.now();
    const { answer, model } = await planModel(
      {
        model: said,
        site,
        batch,
        ...(spec.framework !== undefined && { framework: spec.framework }),
        random: randomFrom(1, "plan"),
        solver: solverFor,
      },
      () => performance.now() - startedMs < CUTS_MS,
    );
    if (answer.kind === "blocked") throw new Error(answer.message);
    /** The stage of each operator of a profiled model; `stages` and `ranks` say its GPUs. */
    const operators = operatorAssignment(model, answer.plan, site)?.operators.map(
      ({ id, stage }) => ({ id, stage }),
    );
    const document = planDocument(answer.plan, site, model.shape);
    return {
      env: { [PLAN_VARIABLE]: `{files}/${PLAN_FILE}` },
      files: [{ name: PLAN_FILE, text: `${JSON.stringify({ ...document, operators })}\n` }],
      message: `plan of ${model.name}: ${planLine(answer.plan)}${assumedText(document.assumed)}`,
    };
  },
};

function modelOf(spec: JobSpec): PlanModel | undefined {
  const { model = "profile", modelProfile, profiledOn } = spec;
  if (modelProfile === undefined) {
    const named = jobModel(spec);
    return named && presetModel(named.name, named.shape);
  }
  const read = readPackedProfile(modelProfile, {
    name: model,
    ...(profiledOn !== undefined && { profiledOn }),
  });
  if (read.kind === "read") return read.model;
  throw new Error(read.problems.map((problem) => problemText(model, problem)).join("; "));
}
