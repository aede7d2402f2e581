/** @file The cluster that a bandwidth model is for, as its fleet describes it now, and versions of the model opened on it. */

import type { Client } from "@temporalio/client";
import type { BandwidthDomain, Candidate } from "../domain/bandwidth/bandwidth-port.ts";
import type { HostGpus } from "../domain/lease/lease.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { predictAsked, type PredictAsked } from "../models/bandwidth/gate.ts";
import type { Learner } from "../models/bandwidth/learner.ts";
import { clusterDomain } from "../models/bandwidth/lookup.ts";
import type { ModelRegistry } from "../models/bandwidth/registry.ts";
import { clusterQuery, fleetWorkflowId } from "../protocol/messages.ts";
import type { ModelPlace } from "../protocol/model-contract.ts";
import type { FleetDetails, Store } from "./store.ts";

export interface DescribedCluster {
  readonly domain: BandwidthDomain;
  readonly detailsHash?: string;
}

/** The cluster as the fleet describes it, with the measured tables of its hosts. */
export async function describeCluster(
  { client, store }: { readonly client: Client; readonly store: Store },
  { fleet, cluster }: ModelPlace,
): Promise<DescribedCluster> {
  const found = await client.workflow
    .getHandle(fleetWorkflowId(fleet))
    .query(clusterQuery, cluster);
  if (found === null) {
    throw new OrbweaverError(
      "NOT_FOUND",
      `fleet ${fleet} has no cluster ${cluster} any more, so its bandwidth model cannot learn or serve. Restore the cluster in the fleet file, or ignore its model`,
    );
  }
  const { detailsHash } = found;
  const details =
    detailsHash === undefined ? undefined : await store.get<FleetDetails>(detailsHash);
  return {
    domain: clusterDomain(found.cluster, new Map(details?.hosts ?? [])),
    ...(detailsHash !== undefined && { detailsHash }),
  };
}

export async function openVersion(
  registry: ModelRegistry,
  version: string,
  { learner, domain }: { readonly learner: Learner; readonly domain: BandwidthDomain },
): Promise<PredictAsked> {
  const manifest = await registry.manifest(version);
  if (manifest === undefined)
    throw new OrbweaverError("NOT_FOUND", `there is no version ${version} in ${registry.dir}`);
  return predictAsked(learner.open(await registry.files(manifest), { domain, version }));
}

/** Undefined when the cluster does not have these hosts with these GPUs. */
export function candidateOf(
  { hosts }: BandwidthDomain,
  gpus: readonly HostGpus[],
): Candidate | undefined {
  const shares = gpus.flatMap(({ host, mask }) => {
    const at = hosts.findIndex(({ id }) => id === host);
    const found = hosts[at];
    return found === undefined || mask >= 2 ** found.gpuCount ? [] : [{ host: at, mask }];
  });
  return shares.length < gpus.length ? undefined : shares.sort((a, b) => a.host - b.host);
}
