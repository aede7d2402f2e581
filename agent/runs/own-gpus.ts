/**
 * @file Which GPUs of the machine an order is for, by their ids, and whether the host may start it on them.
 *
 * Leases count places, and which GPU has a place the host has noted (`gpus-file.ts`). A note may be lost, or begun anew, under launches that run on. So a launch notes
 * its ids, too: another one that would get one of them is refused, whatever the places say, and a fault of a GPU is that of the launch that has its id.
 */

import { uuidsOf } from "../containment/host-gpus.ts";
import type { StoredOrder } from "../folder/launch-files.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { maskOn, type AgentHost } from "./agent-host.ts";
import { phaseOf, runKey, type RunRef } from "./local-run.ts";
import { gpuIds } from "./rank-environment.ts";

/** Undefined where the machine says no ids. */
export function ownUuids({ gpus = [] }: AgentHost, order: RunOrder): readonly string[] | undefined {
  if (gpus.length === 0) return undefined;
  return uuidsOf(gpuIds(maskOn(order)), gpus).flatMap((uuid) => uuid ?? []);
}

/** Where the GPUs of a launch are now: by its ids, or where the launch or the host knows none by its lease. */
export function placesOf(
  { gpus = [] }: Pick<AgentHost, "gpus">,
  { order, gpuUuids }: StoredOrder,
): readonly number[] {
  if (gpus.length === 0 || gpuUuids === undefined) return gpuIds(maskOn(order));
  return gpus.flatMap(({ index, uuid }) => (gpuUuids.includes(uuid) ? [index] : []));
}

/** Why the host may not start the order on its GPUs, for people. */
export function gpuRefusal(host: AgentHost, order: RunOrder, ref: RunRef): string | undefined {
  const { gpus = [], open } = host;
  const own = ownUuids(host, order);
  if (own === undefined) return undefined;
  const nowhere = gpuIds(maskOn(order)).find((place) => gpus[place] === undefined);
  if (nowhere !== undefined)
    return `the lease names GPU ${nowhere}, and the machine shows ${gpus.length}. Mend it, or drain that GPU, and restart the agent`;
  const gone = gpuIds(maskOn(order)).find((place) => gpus[place]?.isGone === true);
  if (gone !== undefined)
    return `the lease names GPU ${gone}, and the machine no longer shows it (${String(gpus[gone]?.uuid)}). Mend it, or drain it: \`orbweaver drain HOST --gpu ${gone}\``;
  for (const other of open.values()) {
    if (runKey(other) === runKey(ref)) continue;
    const { kind } = phaseOf(other);
    const shared = other.stored?.gpuUuids?.find((uuid) => own.includes(uuid));
    if (shared !== undefined && (kind === "starting" || kind === "running"))
      return `${other.leaseId} still has ${shared} there: the machine showed other GPUs when that began. It ends by itself, or by \`orbweaver requeue\``;
  }
  return undefined;
}
