/** @file The address of an agent that begins: its epoch, and the queues that have it in their names. */

import { beginEpoch } from "../agent/presence/epoch.ts";
import type { AgentHost } from "../agent/runs/agent-host.ts";
import { nodeSystem } from "../agent/system/node-system.ts";
import type { AgentAddress } from "../domain/lease/inbox-entry.ts";
import type { ClusterId, HostId } from "../domain/values/ids.ts";

export interface AgentPlace {
  readonly fleet: string;
  readonly cluster: ClusterId;
  readonly hosts: readonly { readonly id: HostId }[];
  /** The address that the other hosts of a gang connect to. */
  readonly address: string;
}

/** A new epoch of all hosts that the agent serves. */
export function newAddress(
  { fleet, cluster, hosts, address }: AgentPlace,
  served: ReadonlyMap<HostId, AgentHost>,
): AgentAddress {
  const epoch = beginEpoch(
    [...served.values()].map(({ layout }) => layout.epoch),
    nodeSystem,
  );
  const [only, ...others] = hosts;
  const host =
    only !== undefined && others.length === 0 ? `.${only.id.slice(only.id.indexOf("/") + 1)}` : "";
  const name = `${fleet}.${cluster}${host}.${epoch}`;
  return { epoch, runQueue: `run.${name}`, orderQueue: `order.${name}`, address };
}
