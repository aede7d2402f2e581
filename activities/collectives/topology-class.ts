/**
 * @file The topology class of a lease: its cluster, the distribution of its GPUs over hosts, and the links between them.
 *
 * Collectives of two leases with one class behave alike, so the leases share measurements; a job that moves to hosts of another
 * class uses the measurements of that class. The class of a lease over several clusters has all their names. Hosts with
 * different numbers or types of GPUs form a class of their own.
 */

import { byCodeUnit, clusterOf } from "../../domain/values/ids.ts";
import type { TopologyClass } from "../../domain/bandwidth/collective-evidence.ts";
import type { FleetShape, HostShape } from "../../domain/fleet/fleet.ts";
import { popCount, type HostGpus } from "../../domain/lease/lease.ts";

/** Hosts of these types have an NVSwitch with in-network reduction, when NVLink joins all their GPUs. Instances of MIG have none. */
const SHARP_TYPES = /^(H100|H200|H800|H20|B100|B200|B300|GB200|GB300|GH200)(?!-PCIE|-NVL|:)/;
const LEAST_SWITCHED = 4;

export function topologyClass(gpus: readonly HostGpus[], shape: FleetShape): TopologyClass {
  const hosts = new Map(
    shape.clusters.flatMap((cluster) => cluster.hosts.map((host) => [host.id, host])),
  );
  const parts = gpus.map(({ host, mask }) => ({
    host: hosts.get(host),
    mask,
    count: popCount(mask),
  }));
  const counts = parts.map(({ count }) => count);
  const types = [...new Set(parts.map(({ host }) => host?.gpuType ?? "unknown"))].sort(byCodeUnit);
  const clusters = [...new Set(gpus.map(({ host }) => clusterOf(host)))].sort(byCodeUnit);
  const hasNvlink = parts.every(({ host, mask }) => isJoined(host, mask));
  const isSwitched = parts.every(
    ({ host }) => (host?.gpuCount ?? 0) >= LEAST_SWITCHED && SHARP_TYPES.test(host?.gpuType ?? ""),
  );
  const name = [shapeText(counts), types.join("+"), ...(hasNvlink ? ["nvlink"] : [])].join("-");
  return {
    cluster: clusters.join("+"),
    name,
    nodes: gpus.length,
    ranks: counts.reduce((sum, count) => sum + count, 0),
    hasNvlink,
    hasNvlinkSharp: hasNvlink && isSwitched,
  };
}

/** A single GPU counts as joined. */
function isJoined(host: HostShape | undefined, mask: number): boolean {
  if (popCount(mask) <= 1) return true;
  return (host?.nvlinkDomains ?? []).some((domain) => (mask & ~domain) === 0);
}

/** `2x4`, or `8+4` where hosts differ, with the largest first. */
function shapeText(counts: readonly number[]): string {
  const [first = 0] = counts;
  if (counts.every((count) => count === first)) return `${String(counts.length)}x${String(first)}`;
  const sizes = [...new Set(counts)].sort((a, b) => b - a);
  return sizes
    .map((size) => `${String(counts.filter((count) => count === size).length)}x${String(size)}`)
    .join("+");
}
