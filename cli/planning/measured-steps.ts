/** @file The steps that runs measured in clusters of a running fleet, for whoever plans there. Nobody has to keep any. */

import { openBandwidthModel } from "../../client/bandwidth-model.ts";
import type { KeptStep } from "../../domain/model/step-record.ts";
import type { Session } from "../command/session.ts";

/** By cluster. */
export type MeasuredSteps = ReadonlyMap<string, readonly KeptStep[]>;

export async function measuredSteps(
  { temporal, fleet }: Pick<Session, "temporal" | "fleet">,
  clusters: readonly string[],
): Promise<MeasuredSteps> {
  const kept = await Promise.all(
    clusters.map(async (cluster) => {
      try {
        return [cluster, await openBandwidthModel(temporal, { fleet, cluster }).steps()] as const;
      } catch {
        // A model that does not answer corrects nothing, as for the plans of running jobs.
        return [cluster, []] as const;
      }
    }),
  );
  return new Map(kept);
}
