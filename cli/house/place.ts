/** @file What a collection goes by: a fleet's state folder and the rules of its file, and the server that knows which of its jobs have ended. */

import { DEFAULT_KEEP } from "../../domain/fleet/keep.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { readUpState } from "../../workers/state.ts";
import { readFleet } from "../command/fleet-files.ts";
import type { Session } from "../command/session.ts";
import type { Io } from "../terminal/io.ts";
import { describe } from "./job-ends.ts";
import type { HousePlace } from "./plan.ts";
import type { StoreReaders } from "./store-marks.ts";

/** `file`: whose `keep:` holds; absent: the one that `up` was given last, and without any the defaults. */
export async function placeIn(
  { cwd, nowMs }: Pick<Io, "cwd" | "nowMs">,
  {
    fleet,
    stateDir,
    file,
  }: Pick<HousePlace, "fleet" | "stateDir"> & { readonly file: string | undefined },
): Promise<HousePlace> {
  const state = await readUpState(stateDir);
  const chosen = file ?? state?.fleetFile;
  const rules = (chosen === undefined ? undefined : readFleet(chosen, cwd).keep) ?? DEFAULT_KEEP;
  return { fleet, stateDir, rules, state, nowMs: nowMs() };
}

/** Why not, where this server is not the fleet's: on another one no job is known. */
export async function readersIn(
  { temporal, connection }: Session,
  { fleet, state }: HousePlace,
  signal: AbortSignal,
): Promise<StoreReaders | string> {
  const own = state?.configuredAddress ?? state?.server?.address;
  if (own !== undefined && own !== connection.address)
    return `the fleet's server is at ${own}, and ${connection.address} was to be asked. Add --address ${own}.`;
  const space = state?.configuredAddress === undefined ? state?.server?.namespace : undefined;
  if (space !== undefined && space !== connection.namespace)
    return `the fleet is in namespace ${space}, and ${connection.namespace} was to be asked. Add --namespace ${space}.`;
  if ((await describe(temporal, fleetWorkflowId(fleet))) === undefined)
    return `the server at ${connection.address} knows no fleet ${fleet}.`;
  const codecs = connection.workerPayloads.dataConverter.payloadCodecs ?? [];
  return { client: temporal, codecs, signal };
}
