/** @file What orders to a fleet are checked against, and what agents of its clusters are held to. */

import { ApplicationFailure } from "@temporalio/workflow";
import {
  DEFAULT_FENCE_MS,
  DEFAULT_SILENCE_MS,
  type ClusterShape,
  type FleetShape,
} from "../domain/fleet.ts";
import type { ClusterId } from "../domain/ids.ts";
import type { Ledger } from "../scheduling/ledger.ts";
import type { ClusterDescription, SilenceTerms } from "./messages.ts";

/** Refuses an order that names no host, or one that the fleet lacks. */
export function checkHosts(order: unknown, fleet: string, { clusters }: FleetShape): void {
  const hosts = hostsOf(order);
  const known = new Set<string>(clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id)));
  const unknown = hosts.filter((host) => !known.has(host));
  if (hosts.length > 0 && unknown.length === 0) return;
  throw ApplicationFailure.nonRetryable(
    hosts.length === 0
      ? "no host was named"
      : `fleet ${fleet} has no host ${unknown.join(", ")}; hosts are named cluster/host, see \`orbweaver fleet show\``,
    "NOT_FOUND",
  );
}

/** The hosts that an order names; none when it is junk. */
function hostsOf(order: unknown): readonly string[] {
  const hosts = typeof order === "object" && order !== null && "hosts" in order ? order.hosts : [];
  return Array.isArray(hosts) ? hosts.filter((host) => typeof host === "string") : [];
}

export const clusterNamed = ({ clusters }: FleetShape, name: string): ClusterShape | undefined =>
  clusters.find(({ id }) => id === name);

/** What a model of the cluster's bandwidth has to know of it. */
export function clusterDescription(
  { shape, detailsHash }: Pick<Ledger, "shape" | "detailsHash">,
  name: string,
): ClusterDescription | null {
  const cluster = clusterNamed(shape, name);
  if (cluster === undefined) return null;
  return { cluster, ...(detailsHash !== undefined && { detailsHash }) };
}

/** The part of a fleet that these clusters are. */
export function shapeOf({ clusters, links }: FleetShape, names: readonly string[]): FleetShape {
  const isNamed = (id: ClusterId): boolean => names.includes(id);
  return {
    clusters: clusters.filter(({ id }) => isNamed(id)),
    links: links.filter(({ from, to }) => isNamed(from) && isNamed(to)),
    tenants: [],
  };
}

/** Null when the fleet has no such cluster. */
export function silenceTermsOf(shape: FleetShape, cluster: string): SilenceTerms | null {
  const found = clusterNamed(shape, cluster);
  if (found === undefined) return null;
  const { silenceMs = DEFAULT_SILENCE_MS, fenceMs = DEFAULT_FENCE_MS, onSilence = "fence" } = found;
  return { silenceMs, fenceMs, onSilence };
}
