/**
 * @file Whose jobs the hosts of a fleet start, and in which containers, as their agents say it in the identity under which they poll.
 *
 * Cost: one call for each agent, for the first 64, as a large fleet's agents are set up alike, and one for each cluster.
 */

import type { Client } from "@temporalio/client";
import type { HostId } from "../domain/values/ids.ts";
import proto from "@temporalio/proto";
import type { KeptWeights } from "../domain/lease/kept-weights.ts";
import { hostWords, type HostWords } from "./gpu-use.ts";
import { parseIdentity, type WorkerIdentity } from "../protocol/worker-identity.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";

const { TASK_QUEUE_TYPE_ACTIVITY } = proto.temporal.api.enums.v1.TaskQueueType;
const MAX_AGENTS = 64;

export interface TrustShare {
  /** `own-user:NAME`, `policy`, `namespace`; `unknown` of an older agent, or of one that does not poll. */
  readonly trust: string;
  readonly hosts: number;
}

export interface ContainmentShare {
  /** A kind of container; `unknown` as above. */
  readonly containment: string;
  /** What it limits of `processes`, `memory`, `cpus` and `gpus`; `ids` where GPUs are named by their ids. */
  readonly limits: readonly string[];
  readonly hosts: number;
}

export interface ImageShare {
  /** The runtimes of the hosts for images, the one that is taken first in front; none also where an agent does not say. */
  readonly runtimes: readonly string[];
  readonly hosts: number;
}

export interface FleetTrust {
  /** Sorted by their names. */
  readonly shares: readonly TrustShare[];
  readonly containment: readonly ContainmentShare[];
  readonly images: readonly ImageShare[];
  /** Hosts whose machines show other GPUs than the fleet's description (`domain/fleet/machine-differences.ts`). */
  readonly differences: readonly {
    readonly host: HostId;
    readonly differences: readonly string[];
  }[];
  /** Hosts that keep weights of served models in their memory; none from a service of a former release. */
  readonly weights?: readonly (KeptWeights & { readonly host: HostId })[];
  /** Hosts on which launches fail, and which their agents left in service all the same (`domain/fleet/left-in-service.ts`); likewise. */
  readonly left?: readonly { readonly host: HostId; readonly why: string }[];
  /** Hosts whose agents were not asked. */
  readonly unasked: number;
}

export async function fleetTrust(
  client: Client,
  fleet: string,
  { hosts, shape }: Pick<Ledger, "hosts" | "shape">,
): Promise<FleetTrust> {
  const hostsOf = new Map<string, HostId[]>();
  for (const [host, { agent }] of hosts) {
    if (agent !== undefined)
      hostsOf.set(agent.orderQueue, [...(hostsOf.get(agent.orderQueue) ?? []), host]);
  }
  const countOn = (queue: string): number => hostsOf.get(queue)?.length ?? 0;
  const queues = [...hostsOf.keys()];
  const asked = queues.slice(0, MAX_AGENTS);
  const words = await Promise.all(asked.map((queue) => wordsOn(client, queue)));
  const countBy = (wordOf: (said: AgentWords) => string | undefined): [string, number][] => {
    const counts = new Map<string, number>();
    asked.forEach((queue, index) => {
      const word = wordOf(words[index] ?? {}) ?? "unknown";
      counts.set(word, (counts.get(word) ?? 0) + countOn(queue));
    });
    return [...counts].sort(([one], [other]) => (one < other ? -1 : 1));
  };
  const left = queues.slice(MAX_AGENTS);
  return {
    shares: countBy(({ trust }) => trust).map(([trust, count]) => ({ trust, hosts: count })),
    containment: countBy((said) => said.containment).map(([word, count]) => {
      const [containment = word, ...limits] = word.split("+");
      return { containment, limits, hosts: count };
    }),
    images: countBy(({ images = [] }) => images.join(",")).map(([word, count]) => ({
      runtimes: word.split(",").filter(Boolean),
      hosts: count,
    })),
    differences: asked.flatMap((queue, index) => {
      const { differences = [] } = words[index] ?? {};
      return differences.length === 0
        ? []
        : (hostsOf.get(queue) ?? []).map((host) => ({ host, differences }));
    }),
    ...(await beatsIn(client, fleet, { hosts, shape })),
    unasked: left.reduce((sum, queue) => sum + countOn(queue), 0),
  };
}

/** Of clusters whose presence cannot be asked, none. */
async function beatsIn(
  client: Client,
  fleet: string,
  { hosts, shape }: Pick<Ledger, "hosts" | "shape">,
): Promise<Required<Pick<FleetTrust, "weights" | "left">>> {
  const queueOf = (host: HostId): string | undefined => hosts.get(host)?.agent?.orderQueue;
  const found = await Promise.all(
    shape.clusters.map(({ id: cluster }) =>
      hostWords(client, { fleet, cluster, queueOf }).catch(() => new Map<HostId, HostWords>()),
    ),
  );
  const words = found.flatMap((one) => [...one]);
  return {
    weights: words.flatMap(([host, { weights }]) => (weights ? [{ host, ...weights }] : [])),
    // An agent goes on saying it for an hour, and by then somebody may have drained the host.
    left: words.flatMap(([host, { left: why }]) =>
      why === undefined || hosts.get(host)?.isDrained === true ? [] : [{ host, why }],
    ),
  };
}

type AgentWords = Pick<WorkerIdentity, "trust" | "containment" | "differences" | "images">;

/** None where the server does not tell: these are remarks beside the fleet, which must be shown all the same. */
async function wordsOn(client: Client, taskQueue: string): Promise<AgentWords> {
  let pollers;
  try {
    ({ pollers } = await client.workflowService.describeTaskQueue({
      namespace: client.options.namespace,
      taskQueue: { name: taskQueue },
      taskQueueType: TASK_QUEUE_TYPE_ACTIVITY,
    }));
  } catch {
    return {};
  }
  const words = (pollers ?? []).flatMap(({ identity }) => {
    const said = parseIdentity(identity ?? "");
    return said?.trust === undefined ? [] : [said];
  });
  return words[0] ?? {};
}
