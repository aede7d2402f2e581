/** @file Every provider of a part of an outfit, loaded when a job wants it: one line for each. */

import type { Client } from "@temporalio/client";
import type { OutfitPart } from "../../domain/outfit.ts";
import type { OutfitProvider } from "./provider.ts";

/** `storeDir`: the folder of the fleet's store. */
export interface ProviderPlace {
  readonly storeDir: string;
}

export type LoadProvider = (
  part: OutfitPart,
  place: ProviderPlace,
) => Promise<OutfitProvider | undefined>;

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
