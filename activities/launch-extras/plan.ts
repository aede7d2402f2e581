/**
 * @file The provider of the plan part: how a training job's model is split over the GPUs of its lease.
 *
 * `ORBWEAVER_PLAN` names a JSON file on every host with degrees, stages, ranks and groups, for a launcher of Megatron-style
 * scripts. What the job file says of the model is planned here, a preset's shape, that of a `modelConfig` or a `modelProfile`: a model file lies with
 * the job's processes and not with the workers. Of a profiled model it has the stage of each operator too. Counts of work bound the search;
 * operators are cut anew while there is time. The steps that runs of the same model on the same GPU types measured in the clusters of the lease
 * correct what is predicted (step-corrections.ts), and a job that has run before keeps its degrees unless others save enough (replan.ts). Beside the
 * plan lies the step against which the agent reports what this run measures.
 */

import type { JobSpec } from "../../domain/job/job.ts";
import { jobModel } from "../../domain/job/job-model.ts";
import {
  PLAN_VARIABLE,
  PLANNED_STEP_FILE,
  type PlannedDegrees,
} from "../../domain/lease/launch-extras.ts";
import type { PlannedStep } from "../../domain/model/step-record.ts";
import { clusterOf } from "../../domain/values/ids.ts";
import { randomFrom } from "../../lib/random.ts";
import { fleetSite } from "../../planning/parallelism/fleet-site.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { planDocument, planLine } from "../../planning/parallelism/plan-document.ts";
import { planName } from "../../planning/parallelism/split.ts";
import type { PlanModel } from "../../planning/parallelism/models.ts";
import { operatorAssignment } from "../../planning/parallelism/operator-assignment.ts";
import { replan } from "../../planning/parallelism/replan.ts";
import {
  correctedText,
  learnedSite,
  stepSubject,
  stepTerms,
} from "../../planning/parallelism/step-corrections.ts";
import { problemText } from "../../domain/values/problem.ts";
import { solverFor } from "../../solvers/index.ts";
import { readPackedProfile } from "./packed-profile.ts";
import { fleetOfWorkflow } from "../../protocol/names.ts";
import { keptIn, type StepsOf } from "../learned-runs.ts";
import type { LaunchExtrasProvider } from "./provider.ts";

export const PLAN_FILE = "plan.json";

const DEADLINE_MS = 15_000;
/** A cut takes a second or two, and must not cost the run its plan. */
const CUTS_MS = 5_000;

const assumedText = (assumed: readonly string[]): string =>
  assumed.length === 0 ? "" : `; assumed, since the fleet file does not say: ${assumed.join("; ")}`;

export const planProviderOver = (stepsOf: StepsOf): LaunchExtrasProvider => ({
  part: "plan",
  deadlineMs: DEADLINE_MS,
  async provide(order, shape) {
    const { spec, gpus, former } = order;
    const { batch } = spec;
    if (batch === undefined) return undefined;
    const said = modelOf(spec);
    if (said === undefined) return undefined;
    const site = fleetSite(gpus, shape);
    if (site.hosts.length < gpus.length)
      throw new Error("the fleet no longer describes all hosts of the lease");
    const fleet = fleetOfWorkflow(order.fleetWorkflowId);
    const clusters = [...new Set(gpus.map(({ host }) => clusterOf(host)))];
    const kept = await keptIn(stepsOf, { fleet, clusters });
    const { tenant } = spec;
    const { site: learned, corrections } = learnedSite(said, site, { kept, tenant });
    const startedMs = performance.now();
    const { answer, model, isKept, saving } = await replan(
      {
        model: said,
        site: learned,
        batch,
        ...(spec.framework !== undefined && { framework: spec.framework }),
        random: randomFrom(1, "plan"),
        solver: solverFor,
      },
      former,
      () => performance.now() - startedMs < CUTS_MS,
    );
    if (answer.kind === "blocked") throw new Error(answer.message);
    /** The stage of each operator of a profiled model; `stages` and `ranks` say its GPUs. */
    const operators = operatorAssignment(model, answer.plan, site)?.operators.map(
      ({ id, stage }) => ({ id, stage }),
    );
    const document = planDocument(answer.plan, site, model.shape, {
      isLed: order.mayLead === true,
    });
    const { dataParallel, pipelineParallel, tensorParallel, expertParallel } = document;
    const { contextParallel, virtualStages } = document;
    const { split } = answer.plan;
    const { stepMs } = document.predicted;
    const lead = gpus.find(({ host }) => host === document.hosts[0])?.host;
    const planned: PlannedStep = {
      ...stepSubject(said, site),
      plan: planName(split),
      ...stepTerms(answer.plan, corrections),
      predictedMs: stepMs,
    };
    const message = [
      `plan of ${model.name}: ${planLine(answer.plan)}`,
      correctedText(corrections),
      ...formerText(former, saving, isKept),
    ]
      .filter((words) => words !== "")
      .join("; ");
    return {
      env: { [PLAN_VARIABLE]: `{files}/${PLAN_FILE}` },
      ...(lead !== undefined && lead !== gpus[0]?.host && { leadHost: lead }),
      files: [
        { name: PLAN_FILE, text: `${JSON.stringify({ ...document, operators })}\n` },
        { name: PLANNED_STEP_FILE, text: `${JSON.stringify(planned)}\n` },
      ],
      message: `${message}${assumedText(document.assumed)}`,
      planned: {
        ...{ dataParallel, pipelineParallel, tensorParallel, expertParallel },
        ...{ contextParallel, virtualStages, stepMs },
      },
    };
  },
});

function formerText(
  former: PlannedDegrees | undefined,
  saving: number | undefined,
  isKept: boolean,
): readonly string[] {
  if (former === undefined || saving === undefined) return [];
  const shorter = `${(100 * saving).toFixed(0)} % of the step`;
  return isKept
    ? [`degrees as before, since others save ${shorter} at most`]
    : [`other degrees than before, which saves ${shorter}`];
}

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
