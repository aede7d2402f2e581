/** @file What `plan --fleet` knows of the fleet that runs by the file: the steps that runs measured there, and sites with them. */

import { OrbweaverError } from "../../domain/values/failure.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import type { PlanModel } from "../../planning/parallelism/models.ts";
import type { PlanSite } from "../../planning/parallelism/site.ts";
import { learnedSite, type LearnedSite } from "../../planning/parallelism/step-corrections.ts";
import { DEFAULT_FLEET } from "../../protocol/names.ts";
import type { CommandContext } from "../command/command-context.ts";
import { readFleet } from "../command/fleet-files.ts";
import type { MeasuredSteps } from "./measured-steps.ts";

/** Of a plan for no job file. */
const DEFAULT_TENANT = "default";

/** What runs of the fleet of a file measured; nothing where it does not run, or its server cannot be reached from here. */
export async function measuredIn(
  context: CommandContext,
  file: string | undefined,
): Promise<MeasuredSteps | undefined> {
  if (file === undefined) return undefined;
  const { name, shape } = readFleet(file, context.io.cwd);
  const clusters = shape.clusters.map(({ id }) => id);
  try {
    return await context.withSession(
      name === DEFAULT_FLEET ? {} : { fleet: name },
      async (session) =>
        // Loaded on use, with Temporal's client.
        (await import("./measured-steps.ts")).measuredSteps(session, clusters),
    );
  } catch (error) {
    // The file alone says what its GPUs do.
    if (error instanceof OrbweaverError) return undefined;
    throw error;
  }
}

/** As a plan of a running job on this site would be corrected. */
export function learnedHere(
  model: PlanModel,
  site: PlanSite,
  { measured, spec }: { readonly measured: MeasuredSteps | undefined; readonly spec?: JobSpec },
): LearnedSite {
  const clusters = [...new Set(site.hosts.map(({ cluster }) => cluster))];
  const kept = clusters.flatMap((cluster) => measured?.get(cluster) ?? []);
  return learnedSite(model, site, { kept, tenant: spec?.tenant ?? DEFAULT_TENANT });
}
