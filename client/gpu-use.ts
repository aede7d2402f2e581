/**
 * @file How much the GPUs of a cluster are used, what its hosts keep and what they have refused, from the heartbeats that Temporal shows of its agents' presence: no worker is asked and none wakes.
 *
 * Cost: one call a cluster.
 */

import type { Client } from "@temporalio/client";
import type { HostGpus } from "../domain/lease/lease.ts";
import { readPresenceBeat, usesIn, type HostUse } from "../domain/lease/gpu-use.ts";
import { readLeftInService } from "../domain/fleet/left-in-service.ts";
import {
  readKeptWeights,
  type KeptWeights,
  type WeightsKeeper,
} from "../domain/lease/kept-weights.ts";
import { readRefusedOrders, type RefusedOrder } from "../domain/lease/refused-order.ts";
import { byCodeUnit, clusterOf, type ClusterId, type HostId } from "../domain/values/ids.ts";
import { presenceWorkflowId } from "../protocol/messages.ts";
import { decodedPayloads } from "./payloads.ts";
import type { RunProgress } from "./run-progress.ts";
import { asked } from "./server-error.ts";

export interface UseQuery {
  readonly fleet: string;
  readonly cluster: ClusterId;
  /** The order queue of the agent that answers for a host, as the fleet knows it; undefined where it does not: then any agent of the cluster is heard. */
  readonly queueOf?: (host: HostId) => string | undefined;
}

/**
 * Hosts whose agents say nothing of their GPUs are absent, and what another agent than a host's own says of it is not heard. Throws where the server
 * does not answer, or knows no such presence.
 */
export async function gpuUse(
  client: Client,
  query: UseQuery,
): Promise<ReadonlyMap<HostId, HostUse>> {
  return new Map(await toldByHosts(client, query, readPresenceBeat));
}

/** What a host's agent says of it beside the use of its GPUs. */
export interface HostWords {
  readonly weights?: KeptWeights;
  /** Why it would have been set aside (`domain/fleet/left-in-service.ts`). */
  readonly left?: string;
}

/** Of the hosts of a cluster whose agents say any; likewise. */
export async function hostWords(
  client: Client,
  query: UseQuery,
): Promise<ReadonlyMap<HostId, HostWords>> {
  return new Map(await toldByHosts(client, query, readWords));
}

function readWords(details: unknown): ReadonlyMap<HostId, HostWords> {
  const [weights, left] = [readKeptWeights(details), readLeftInService(details)];
  const words = new Map<HostId, HostWords>();
  for (const [host, kept] of weights) words.set(host, { weights: kept });
  for (const [host, why] of left) words.set(host, { ...words.get(host), left: why });
  return words;
}

/** The hosts of a cluster that say for which services they keep weights, sorted; likewise. */
export async function weightsKeepers(
  client: Client,
  query: UseQuery,
): Promise<readonly WeightsKeeper[]> {
  const kept = await toldByHosts(client, query, readKeptWeights);
  return kept
    .flatMap(([host, { services = [] }]) =>
      services.length === 0 ? [] : [{ host, services: [...services].sort(byCodeUnit) }],
    )
    .sort((a, b) => byCodeUnit(a.host, b.host));
}

/** What the hosts of a cluster have refused, a row for each sender; likewise. */
export const refusedByHosts = (
  client: Client,
  query: UseQuery,
): Promise<readonly (readonly [HostId, readonly RefusedOrder[]])[]> =>
  toldByHosts(client, query, readRefusedOrders);

async function toldByHosts<Told>(
  client: Client,
  { fleet, cluster, queueOf = () => undefined }: UseQuery,
  read: (details: unknown) => ReadonlyMap<HostId, Told>,
): Promise<readonly (readonly [HostId, Told])[]> {
  const workflowId = presenceWorkflowId(fleet, cluster);
  const presence = client.workflow.getHandle(workflowId);
  const { raw } = await asked(client, `the presence of ${cluster}`, () => presence.describe());
  const told: (readonly [HostId, Told])[] = [];
  for (const { activityType, activityOptions, heartbeatDetails } of raw.pendingActivities ?? []) {
    if (activityType?.name !== "keepContact") continue;
    // The presence chose it: an agent can say what it likes, but only in its own activity.
    const queue = activityOptions?.taskQueue?.name;
    const [details] = await decodedPayloads(client, heartbeatDetails?.payloads ?? [], workflowId);
    for (const [host, said] of read(details))
      if (clusterOf(host) === cluster && (queueOf(host) ?? queue) === queue)
        told.push([host, said]);
  }
  return told;
}

/** What each host of a job's leases says of the GPUs that the job has there; what cannot be read is left out. */
export async function withGpuUse(
  runs: readonly RunProgress[],
  { client, fleet, gpus }: { client: Client; fleet: string; gpus: readonly HostGpus[] },
): Promise<readonly RunProgress[]> {
  const clusters = [...new Set(gpus.map(({ host }) => clusterOf(host)))];
  const found = await Promise.all(
    clusters.map((cluster) => gpuUse(client, { fleet, cluster }).catch(() => undefined)),
  );
  const use = new Map(found.flatMap((one) => [...(one ?? [])]));
  return runs.map((run) => {
    const own = gpus.filter(({ host }) => host === run.host);
    const gpuUses = own.flatMap(({ host, mask }) => usesIn(use.get(host), mask));
    return gpuUses.length === 0 ? run : { ...run, gpuUse: gpuUses };
  });
}
