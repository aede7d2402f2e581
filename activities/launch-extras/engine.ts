/**
 * @file The provider of the engine part: how vLLM or SGLang splits a language model over the GPUs of its lease, as the engine's arguments.
 *
 * The run finds them in `ORBWEAVER_ENGINE_ARGS`. A note says how many GPUs of the lease no replica uses. A gang that was degraded or moved gets new arguments, because every run
 * gets new launch extras. A model that does not fit leaves a note with the reason, and the run starts without arguments.
 */

import { serviceGoal } from "../../domain/job/job-engine.ts";
import { jobModel } from "../../domain/job/job-model.ts";
import { ENGINE_ARGS_VARIABLE } from "../../domain/model/engine-names.ts";
import { fleetSite } from "../../planning/parallelism/fleet-site.ts";
import { planServing } from "../../planning/serving/plan-serving.ts";
import { servingDocument, servingLine } from "../../planning/serving/serving-document.ts";
import { servingSite } from "../../planning/serving/serving-site.ts";
import type { LaunchExtrasProvider } from "./provider.ts";

const DEADLINE_MS = 15_000;

export const engineProvider: LaunchExtrasProvider = {
  part: "engine",
  deadlineMs: DEADLINE_MS,
  provide({ spec, gpus }, shape) {
    const named = jobModel(spec);
    if (named === undefined || spec.engine === undefined) return Promise.resolve(undefined);
    const planSite = fleetSite(gpus, shape);
    if (planSite.hosts.length < gpus.length)
      throw new Error("the fleet no longer describes all hosts of the lease");
    const found = servingSite(planSite);
    if (found.kind === "blocked") throw new Error(found.message);
    const goal = serviceGoal(spec.engine, named.shape);
    const answer = planServing({ ...named, site: found.site, goal });
    if (answer.kind === "blocked") throw new Error(answer.message);
    const document = servingDocument(answer.plan, { engine: spec.engine.engine, ...named });
    const leased = found.site.hostGpus.reduce((sum, count) => sum + count, 0);
    const idle = leased - answer.plan.gpus;
    return Promise.resolve({
      env: { ...document.environment, [ENGINE_ARGS_VARIABLE]: document.arguments.join(" ") },
      files: [],
      message: [
        `${spec.engine.engine}: ${servingLine(answer.plan)}`,
        ...(idle > 0
          ? [`${idle} of ${leased} GPUs idle: no split over all of them is better`]
          : []),
        ...document.notes,
      ].join("; "),
    });
  },
};
