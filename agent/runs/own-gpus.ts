/**
 * @file Which GPUs of the machine an order is for, by their ids, and whether the host may start it on them.
 *
 * Leases count places. Which GPU has a place is as the machine showed it when the agent began: one that is gone since, or another that came, moves the places of
 * those behind it under launches that run on. So a launch notes its ids, and another one that would get one of them is refused, whatever the places say.
 */

import { uuidsOf } from "../containment/host-gpus.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { maskOn, type AgentHost } from "./agent-host.ts";
import { phaseOf, runKey, type RunRef } from "./local-run.ts";
import { gpuIds } from "./rank-environment.ts";

/** Undefined where the machine says no ids. */
export function ownUuids({ gpus = [] }: AgentHost, order: RunOrder): readonly string[] | undefined {
  if (gpus.length === 0) return undefined;
  return uuidsOf(gpuIds(maskOn(order)), gpus).flatMap((uuid) => uuid ?? []);
}

/** Why the host may not start the order on its GPUs, for people. */
export function gpuRefusal(host: AgentHost, order: RunOrder, ref: RunRef): string | undefined {
  const { gpus = [], open } = host;
  const own = ownUuids(host, order);
  if (own === undefined) return undefined;
  const nowhere = gpuIds(maskOn(order)).find((place) => gpus[place] === undefined);
  if (nowhere !== undefined)
    return `the lease names GPU ${nowhere}, and the machine shows ${gpus.length}. Mend it, or drain that GPU, and restart the agent`;
  for (const other of open.values()) {
    if (runKey(other) === runKey(ref)) continue;
    const { kind } = phaseOf(other);
    const shared = other.stored?.gpuUuids?.find((uuid) => own.includes(uuid));
    if (shared !== undefined && (kind === "starting" || kind === "running"))
      return `${other.leaseId} still has ${shared} there: the machine showed other GPUs when that began. It ends by itself, or by \`orbweaver requeue\``;
  }
  return undefined;
}
