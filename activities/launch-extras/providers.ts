/** @file All providers of launch extras, one line for each; a provider is loaded when a job wants its part. */

import type { Client } from "@temporalio/client";
import type { LaunchExtra } from "../../domain/lease/launch-extras.ts";
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
  async (part) => {
    switch (part) {
      case "collectives": {
        const { collectivesProvider, tunerOver } = await import("./collectives.ts");
        return collectivesProvider(tunerOver(client));
      }
      case "plan": {
        const { planProvider } = await import("./plan.ts");
        return planProvider;
      }
      case "inference": {
        const { inferenceProvider } = await import("./inference.ts");
        return inferenceProvider;
      }
    }
  };
