/** @file All providers of launch extras, one line for each; a provider is loaded when a job wants its part. */

import type { Client } from "@temporalio/client";
import { clusterOf } from "../../domain/values/ids.ts";
import type { LaunchExtra } from "../../domain/lease/launch-extras.ts";
import { clusterQuery } from "../../protocol/messages.ts";
import { stepsOver } from "../learned-runs.ts";
import { directoryStore, type FleetDetails } from "../store.ts";
import type { InferencePorts } from "./inference.ts";
import type { LaunchExtrasProvider } from "./provider.ts";

/** `storeDir`: the folder of the fleet's store. */
export interface ProviderPlace {
  readonly storeDir: string;
}

export type LoadProvider = (
  part: LaunchExtra,
  place: ProviderPlace,
) => Promise<LaunchExtrasProvider | undefined>;

export const providersOver =
  (client: Client): LoadProvider =>
  async (part, { storeDir }) => {
    switch (part) {
      case "collectives": {
        const { collectivesProvider, tunerOver } = await import("./collectives.ts");
        return collectivesProvider(tunerOver(client));
      }
      case "plan": {
        const { planProviderOver } = await import("./plan.ts");
        return planProviderOver(stepsOver(client));
      }
      case "inference": {
        const { inferenceProviderOver } = await import("./inference.ts");
        const { keepingPlans, keptPlansDir } = await import("./kept-plans.ts");
        return inferenceProviderOver({
          topologyOf: topologiesOver(client, storeDir),
          planModel: keepingPlans(keptPlansDir(storeDir)),
        });
      }
      case "engine": {
        const { engineProvider } = await import("./engine.ts");
        return engineProvider;
      }
    }
  };

/** From the fleet's measured tables. A store without them, or a damaged one, has no matrices. */
export const topologiesOver =
  (client: Client, storeDir: string): InferencePorts["topologyOf"] =>
  async (fleetWorkflowId, host) => {
    const fleet = client.workflow.getHandle(fleetWorkflowId);
    const found = await fleet.query(clusterQuery, clusterOf(host));
    if (found?.detailsHash === undefined) return undefined;
    const details = await directoryStore(storeDir)
      .get<FleetDetails>(found.detailsHash)
      .catch(() => undefined);
    return details?.hosts.find(([id]) => id === host)?.[1].topology;
  };
