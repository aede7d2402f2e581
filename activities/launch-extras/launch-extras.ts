/**
 * @file The activity that makes the launch extras of a run: files and variables from the providers of the parts that its job
 * wants.
 *
 * The providers run concurrently, each with its own deadline. A provider that throws, overruns its deadline or returns
 * something that cannot be carried leaves a note, and the run starts without its part. Where two parts set one variable, the
 * later in `LAUNCH_EXTRAS` wins.
 */

import type { Client } from "@temporalio/client";
import { clusterOf } from "../../domain/values/ids.ts";
import {
  LAUNCH_EXTRAS,
  extrasProblem,
  type LaunchExtras,
  type LaunchExtrasNote,
  type LaunchExtra,
} from "../../domain/lease/launch-extras.ts";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { shapeQuery } from "../../protocol/messages.ts";
import type {
  LaunchExtrasActivities,
  LaunchExtrasOrder,
  LaunchExtrasReport,
} from "../../protocol/launch-extras-contract.ts";
import { devicesFiles } from "./served-devices.ts";
import { POLISH_TERMS } from "./polish-terms.ts";
import type { LoadProvider, ProviderPlace } from "./providers.ts";

export interface LaunchExtrasPorts extends ProviderPlace {
  readonly client: Client;
  readonly loadProvider: LoadProvider;
}

export function createLaunchExtrasActivities(ports: LaunchExtrasPorts): LaunchExtrasActivities {
  return {
    async launchExtras(order) {
      const clusters = [...new Set(order.gpus.map(({ host }) => clusterOf(host)))];
      const fleet = ports.client.workflow.getHandle(order.fleetWorkflowId);
      return extrasFrom(order, await fleet.query(shapeQuery, clusters), ports);
    },
  };
}

interface Made {
  readonly part: LaunchExtra;
  readonly launchExtras?: LaunchExtras;
  readonly note: LaunchExtrasNote;
}

/** The launch extras of a lease in a fleet of this shape. */
export async function extrasFrom(
  order: LaunchExtrasOrder,
  shape: FleetShape,
  ports: Pick<LaunchExtrasPorts, "loadProvider" | "storeDir">,
): Promise<LaunchExtrasReport> {
  const parts = LAUNCH_EXTRAS.filter((part) => order.parts.includes(part));
  const made = await Promise.all(parts.map((part) => makePart(part, { order, shape, ports })));
  const env: Record<string, string> = {};
  const files: LaunchExtras["files"][number][] = [...devicesFiles(order, shape)];
  const notes: LaunchExtrasNote[] = [];
  let leadHost: LaunchExtras["leadHost"];
  for (const { launchExtras, note } of made) {
    const all =
      launchExtras === undefined ? undefined : { env, files: [...files, ...launchExtras.files] };
    const problem = all === undefined ? undefined : extrasProblem(all, order.gpus.length);
    if (launchExtras === undefined || problem !== undefined) {
      notes.push(problem === undefined ? note : fallback(note.part, problem));
      continue;
    }
    files.push(...launchExtras.files);
    Object.assign(env, launchExtras.env);
    leadHost ??= launchExtras.leadHost;
    notes.push(note);
  }
  const isPlanned = notes.some(({ onGpus }) => onGpus !== undefined);
  return {
    ...{ env, files, notes },
    ...(leadHost !== undefined && { leadHost }),
    ...(isPlanned && { polish: POLISH_TERMS }),
  };
}

async function makePart(
  part: LaunchExtra,
  {
    order,
    shape,
    ports,
  }: {
    readonly order: LaunchExtrasOrder;
    readonly shape: FleetShape;
    readonly ports: Pick<LaunchExtrasPorts, "loadProvider" | "storeDir">;
  },
): Promise<Made> {
  const without = (why: string): Made => ({ part, note: fallback(part, why) });
  try {
    const provider = await ports.loadProvider(part, { storeDir: ports.storeDir });
    if (provider === undefined) return without("no provider makes it here");
    const { deadlineMs } = provider;
    const late = AbortSignal.timeout(deadlineMs);
    const made = await Promise.race([
      provider.provide(order, shape, late),
      new Promise<"late">((resolve) =>
        late.addEventListener("abort", () => resolve("late"), { once: true }),
      ),
    ]);
    if (made === "late") return without(`it was not ready after ${String(deadlineMs / 1_000)} s`);
    if (made === undefined) return without("it has nothing for this job and these GPUs");
    const { env, files, leadHost, ...told } = made;
    const launchExtras = { env, files, ...(leadHost !== undefined && { leadHost }) };
    return { part, launchExtras, note: { part, kind: "done", ...told } };
  } catch (error) {
    return without(error instanceof Error ? error.message : String(error));
  }
}

const fallback = (part: LaunchExtra, why: string): LaunchExtrasNote => ({
  part,
  kind: "fallback",
  message: `started without: ${why}`.slice(0, 500),
});
