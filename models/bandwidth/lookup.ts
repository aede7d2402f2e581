/**
 * @file The measurements inside hosts as exact look-ups: the bandwidth domain of a cluster from its tables.
 *
 * A mask reads the measurement of that very host: no mean over a type, no symmetry (a table built by symmetry loses
 * half the bandwidth on some hosts, see docs/measuring.md). One GPU does not communicate and sets no limit: Infinity. A mask that
 * was not measured is undefined; `withGuesses` (symmetry-prior.ts) fills such holes for as long as they are holes, and says so.
 * Cost: one array access.
 */

import type { BandwidthDomain } from "../../domain/bandwidth/bandwidth-port.ts";
import type { IntraHostTable } from "../../domain/bandwidth/bandwidth-table.ts";
import type { ClusterShape, HostDetails } from "../../domain/fleet/fleet.ts";
import type { HostId } from "../../domain/values/ids.ts";

export interface LookupHost {
  readonly id: HostId;
  readonly gpuCount: number;
  readonly gpuType: string;
  readonly rack?: string;
  /** Absent: nothing was measured inside it. */
  readonly table?: IntraHostTable;
}

/** What one GPU alone is limited to. */
const NO_LIMIT_GBS = Infinity;

export function lookupDomain(hosts: readonly LookupHost[]): BandwidthDomain {
  return {
    hosts: hosts.map(({ id, gpuCount, gpuType, rack }) => ({
      id,
      gpuCount,
      gpuType,
      ...(rack !== undefined && { rack }),
    })),
    intraGbs: (host, mask) => measuredGbs(hosts[host], mask),
  };
}

/** A cluster of the fleet with what its details say. */
export function clusterDomain(
  cluster: ClusterShape,
  details: ReadonlyMap<HostId, HostDetails>,
): BandwidthDomain {
  return lookupDomain(
    cluster.hosts.map(({ id, gpuCount, gpuType, rack }) => {
      const table = details.get(id)?.bandwidth;
      return {
        id,
        gpuCount,
        gpuType,
        ...(rack !== undefined && { rack }),
        ...(table !== undefined && { table }),
      };
    }),
  );
}

export const isOneGpu = (mask: number): boolean => mask > 0 && (mask & (mask - 1)) === 0;

function measuredGbs(host: LookupHost | undefined, mask: number): number | undefined {
  if (host === undefined || mask < 1 || mask >= 2 ** host.gpuCount) return undefined;
  if (isOneGpu(mask)) return NO_LIMIT_GBS;
  return host.table?.gbsByMask[mask] ?? undefined;
}
