/**
 * @file `outfit`: what a run is given beside its GPUs, from the providers of the parts that its job wants.
 *
 * The providers run side by side, each under its own deadline; one that throws, overruns or makes something that cannot be
 * carried leaves a note, and the run starts without its part. Where two parts set one variable, the later in `OUTFIT_PARTS` wins.
 */

import type { Client } from "@temporalio/client";
import { clusterOf } from "../../domain/ids.ts";
import {
  OUTFIT_PARTS,
  outfitProblem,
  type Outfit,
  type OutfitNote,
  type OutfitPart,
} from "../../domain/outfit.ts";
import type { FleetShape } from "../../domain/fleet.ts";
import { shapeQuery } from "../../workflows/messages.ts";
import type { OutfitActivities, OutfitOrder, OutfitReport } from "../outfit-contract.ts";
import type { LoadProvider, ProviderPlace } from "./providers.ts";

export interface OutfitPorts extends ProviderPlace {
  readonly client: Client;
  readonly loadProvider: LoadProvider;
}

export function createOutfitActivities(ports: OutfitPorts): OutfitActivities {
  return {
    async outfit(order) {
      const clusters = [...new Set(order.gpus.map(({ host }) => clusterOf(host)))];
      const fleet = ports.client.workflow.getHandle(order.fleetWorkflowId);
      return outfitFrom(order, await fleet.query(shapeQuery, clusters), ports);
    },
  };
}

interface Made {
  readonly part: OutfitPart;
  readonly outfit?: Outfit;
  readonly note: OutfitNote;
}

/** The outfit of a lease in a fleet of this shape. */
export async function outfitFrom(
  order: OutfitOrder,
  shape: FleetShape,
  ports: Pick<OutfitPorts, "loadProvider" | "storeDir">,
): Promise<OutfitReport> {
  const parts = OUTFIT_PARTS.filter((part) => order.parts.includes(part));
  const made = await Promise.all(parts.map((part) => makePart(part, { order, shape, ports })));
  const env: Record<string, string> = {};
  const files: Outfit["files"][number][] = [];
  const notes: OutfitNote[] = [];
  for (const { outfit, note } of made) {
    const all = outfit === undefined ? undefined : { env, files: [...files, ...outfit.files] };
    const problem = all === undefined ? undefined : outfitProblem(all, order.gpus.length);
    if (outfit === undefined || problem !== undefined) {
      notes.push(problem === undefined ? note : fallback(note.part, problem));
      continue;
    }
    files.push(...outfit.files);
    Object.assign(env, outfit.env);
    notes.push(note);
  }
  return { env, files, notes };
}

async function makePart(
  part: OutfitPart,
  {
    order,
    shape,
    ports,
  }: {
    readonly order: OutfitOrder;
    readonly shape: FleetShape;
    readonly ports: Pick<OutfitPorts, "loadProvider" | "storeDir">;
  },
): Promise<Made> {
  const without = (why: string): Made => ({ part, note: fallback(part, why) });
  try {
    const provider = await ports.loadProvider(part, { storeDir: ports.storeDir });
    if (provider === undefined) return without("nothing here makes it");
    const { deadlineMs } = provider;
    const late = AbortSignal.timeout(deadlineMs);
    const made = await Promise.race([
      provider.provide(order, shape, late),
      new Promise<"late">((resolve) =>
        late.addEventListener("abort", () => resolve("late"), { once: true }),
      ),
    ]);
    if (made === "late") return without(`it was not ready after ${String(deadlineMs / 1_000)} s`);
    if (made === undefined) return without("there is nothing to give for this job and these GPUs");
    const { env, files, message } = made;
    return { part, outfit: { env, files }, note: { part, kind: "done", message } };
  } catch (error) {
    return without(error instanceof Error ? error.message : String(error));
  }
}

const fallback = (part: OutfitPart, why: string): OutfitNote => ({
  part,
  kind: "fallback",
  message: `started without: ${why}`.slice(0, 500),
});
