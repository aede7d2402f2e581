/**
 * @file Which collectives behave like those of a lease: its cluster, how its GPUs lie over hosts, and what joins them.
 *
 * Two leases of one class share what is learned; a job that was moved to hosts of another class finds what was learned there. A lease over
 * several clusters has their names in its class. Hosts with different numbers of GPUs, or types, are a class of their own.
 */

import { byCodeUnit, clusterOf } from "../../domain/ids.ts";
import type { TopologyClass } from "../../domain/collective-evidence.ts";
import type { FleetShape, HostShape } from "../../domain/fleet.ts";
import { popCount, type HostGpus } from "../../domain/lease.ts";

/** Hosts of these have an NVSwitch that reduces, when NVLink joins all their GPUs. */
const SHARP_TYPES = /^(H100|H200|H800|H20|B100|B200|B300|GB200|GB300|GH200)(?!-PCIE|-NVL)/;
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

/** One GPU alone is joined to itself. */
function isJoined(host: HostShape | undefined, mask: number): boolean {
  if (popCount(mask) <= 1) return true;
  return (host?.nvlinkDomains ?? []).some((domain) => (mask & ~domain) === 0);
}

/** `2x4`, or `8+4` where hosts differ: the most first. */
function shapeText(counts: readonly number[]): string {
  const [first = 0] = counts;
  if (counts.every((count) => count === first)) return `${String(counts.length)}x${String(first)}`;
  const sizes = [...new Set(counts)].sort((a, b) => b - a);
  return sizes
    .map((size) => `${String(counts.filter((count) => count === size).length)}x${String(size)}`)
    .join("+");
}
