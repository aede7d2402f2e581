/**
 * @file The position of each GPU of a fleet as numbers: NVLink domain and NUMA node inside a host, and rack, cluster and site.
 *
 * The fleet's description counts first. Where it is silent:
 *   NVLink domains  A host whose GPUs sit on one NVSwitch or NVLink board (SXM types: H100, A100, V100, …) is one domain. Any
 *                   other host has no NVLink; there the domain is the reach of one PCIe root: a NUMA node where those are
 *                   known, else one half of the host if it has more than four GPUs, else the host.
 *   NUMA nodes      one, the whole host: an unknown node is not charged.
 *   rack            the hosts of a cluster without a rack's name are in one rack.
 * The same rule holds where the topology is known and has no NVLink. Built once a fleet. Cost: O(hosts · log hosts).
 */

import type { ClusterShape, FleetShape, HostShape } from "../../domain/fleet/fleet.ts";
import { byCodeUnit, type ClusterId, type HostId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { fullMask } from "../../lib/bits.ts";
import type { HostKind } from "./host-kind.ts";

export interface HostLayout {
  readonly host: HostId;
  /** Place in the fleet's order of clusters, inside a cluster by host id: unique, breaks ties. */
  readonly order: number;
  readonly gpuType: string;
  readonly gpuCount: number;
  /** Draw of one busy GPU. */
  readonly gpuWatts: number;
  /** Shared by all hosts of one type with the same domains and NUMA nodes. */
  readonly kind: HostKind;
  /** Numbers of its rack, cluster and site: each counts from 0 over the fleet. */
  readonly rack: number;
  readonly cluster: number;
  readonly site: number;
  readonly clusterId: ClusterId;
  readonly siteName: string;
  /** Absent where the fleet names none. */
  readonly rackName?: string;
  readonly hasFabric: boolean;
}

export type FleetLayout = ReadonlyMap<HostId, HostLayout>;

export function layOut({ clusters }: Pick<FleetShape, "clusters">): FleetLayout {
  const sites = numbering<string>();
  const kinds = new Map<string, HostKind>();
  const layout = new Map<HostId, HostLayout>();
  let racksBefore = 0;
  for (const [cluster, shape] of clusters.entries()) {
    const site = sites.numberOf(shape.site);
    const racks = numbering<string | undefined>();
    for (const host of [...shape.hosts].sort((a, b) => byCodeUnit(a.id, b.id))) {
      const rack = racksBefore + racks.numberOf(host.rack);
      const kind = kindOf(host, kinds);
      layout.set(
        host.id,
        hostLayout(host, shape, { kind, order: layout.size, rack, cluster, site }),
      );
    }
    racksBefore += racks.count();
  }
  return layout;
}

function kindOf(host: HostShape, kinds: Map<string, HostKind>): HostKind {
  const { gpuType, gpuCount, nvlinkDomains, numaNodes } = host;
  const key = `${gpuType} ${gpuCount} ${nvlinkDomains?.join() ?? ""} ${numaNodes?.join() ?? ""}`;
  const known = kinds.get(key);
  if (known !== undefined) return known;
  const kind: HostKind = {
    number: kinds.size,
    gpuCount,
    domains: domainsOf(host),
    numaNodes: covering(numaNodes, gpuCount) ?? [fullMask(gpuCount)],
    known: new Map(),
  };
  kinds.set(key, kind);
  return kind;
}

type Place = Pick<HostLayout, "order" | "kind" | "rack" | "cluster" | "site">;

function hostLayout(host: HostShape, cluster: ClusterShape, place: Place): HostLayout {
  const { id, gpuType, gpuCount, gpuWatts, rack } = host;
  return {
    host: id,
    gpuType,
    gpuCount,
    gpuWatts,
    ...place,
    clusterId: cluster.id,
    siteName: cluster.site,
    ...(rack !== undefined && { rackName: rack }),
    hasFabric: cluster.fabricGbps !== undefined,
  };
}

/** GPUs that one PCIe root complex carries, at most. */
const GPUS_OF_ROOT = 4;

export function domainsOf({
  gpuType,
  gpuCount,
  nvlinkDomains,
  numaNodes,
}: Pick<HostShape, "gpuType" | "gpuCount" | "nvlinkDomains" | "numaNodes">): readonly number[] {
  const joined = covering(nvlinkDomains, gpuCount);
  if (joined?.some((mask) => popCount(mask) > 1) === true) return joined;
  if (joined === undefined && isNvlinkBoard(gpuType)) return [fullMask(gpuCount)];
  const nodes = covering(numaNodes, gpuCount);
  if (nodes !== undefined) return nodes;
  const half = fullMask(Math.ceil(gpuCount / 2));
  return gpuCount > GPUS_OF_ROOT ? [half, fullMask(gpuCount) & ~half] : [fullMask(gpuCount)];
}

/** Well-known types that are sold on boards whose GPUs are all joined by NVLink, by the maker's data sheets. */
const NVLINK_BOARDS: ReadonlySet<string> = new Set([
  "B300",
  "B200",
  "GB200",
  "H200",
  "H100",
  "H800",
  "H20",
  "GH200",
  "A100",
  "A100-40",
  "A100-80",
  "A800",
  "V100",
  "V100-16",
  "V100-32",
  "P100",
]);

const isNvlinkBoard = (gpuType: string): boolean =>
  NVLINK_BOARDS.has(gpuType) || /sxm|hgx/i.test(gpuType);

/** The masks cut to the host's GPUs, those that none of them names as sets of their own; absent when there are none. */
function covering(
  masks: readonly number[] | undefined,
  gpuCount: number,
): readonly number[] | undefined {
  if (masks === undefined || masks.length === 0) return undefined;
  let open = fullMask(gpuCount);
  const parts: number[] = [];
  for (const mask of masks) {
    const part = mask & open;
    if (part === 0) continue;
    parts.push(part);
    open &= ~part;
  }
  for (; open !== 0; open &= open - 1) parts.push(open & -open);
  return parts.sort((a, b) => (a & -a) - (b & -b));
}

interface Numbering<Key> {
  /** The next number when the key is new. */
  readonly numberOf: (key: Key) => number;
  readonly count: () => number;
}

function numbering<Key>(): Numbering<Key> {
  const numbers = new Map<Key, number>();
  const numberOf = (key: Key): number => {
    const number = numbers.get(key) ?? numbers.size;
    if (number === numbers.size) numbers.set(key, number);
    return number;
  };
  return { numberOf, count: () => numbers.size };
}
