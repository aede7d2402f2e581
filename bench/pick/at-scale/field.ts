/**
 * @file A cluster of a fabric as the product sees it: the hosts with their racks and tables inside, and the fleet that has it as its one cluster.
 *
 * A rack is what `fleet import --fabric` makes of such a cluster: the hosts below one set of leaf switches, or those of one NVLink domain. Nothing
 * else of the fabric is known to any method: no card, no path, no fault. What one host alone reaches is measured in it, mask by mask.
 */

import type { BandwidthDomain } from "../../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { fullMask } from "../../../lib/bits.ts";
import { layOut, type HostLayout } from "../../../scheduling/placement/layout.ts";
import { openSpread, type FleetSpread } from "../../../scheduling/placement/spread.ts";
import type { FabricSpec } from "../../fabric/fabric-file.ts";
import { buildCluster } from "../../fabric/fabric.ts";
import { fabricTruth, type FabricTruth } from "../../fabric/truth.ts";
import { simulatedShape } from "../simulated-shape.ts";

export interface FabricField {
  readonly name: string;
  readonly seed: number;
  readonly gpus: number;
  readonly truth: FabricTruth;
  readonly domain: BandwidthDomain;
  readonly spread: FleetSpread;
  /** By host of the domain. */
  readonly layouts: readonly HostLayout[];
  /** By rack, the hosts of the domain. */
  readonly racks: readonly (readonly number[])[];
}

export function openField(
  spec: FabricSpec,
  { gpus, seed }: { readonly gpus: number; readonly seed: number },
): FabricField {
  const cluster = buildCluster(spec, { gpus, seed });
  const truth = fabricTruth(cluster);
  const perRack = cluster.hostsPerIsland > 1 ? cluster.hostsPerIsland : cluster.hostsPerLeaf;
  const hosts = Array.from({ length: cluster.hosts }, (_, at) => ({
    id: hostId("fabric", `h${String(at).padStart(4, "0")}`),
    gpuCount: cluster.gpusPerHost,
    gpuType: cluster.gpuType,
    rack: `r${String(Math.floor(at / perRack)).padStart(3, "0")}`,
  }));
  const inside = new Map<number, number>();
  const domain: BandwidthDomain = {
    hosts,
    // Inside, all hosts of a fabric are alike.
    intraGbs: (_, mask) => {
      const known = inside.get(mask) ?? truth.gbs([{ host: 0, mask }]);
      inside.set(mask, known);
      return known;
    },
  };
  const fleet = simulatedShape(hosts);
  const layout = layOut(fleet);
  const racks: number[][] = [];
  for (const at of hosts.keys()) (racks[Math.floor(at / perRack)] ??= []).push(at);
  return {
    name: spec.name,
    seed,
    gpus: cluster.hosts * cluster.gpusPerHost,
    truth,
    domain,
    spread: openSpread(fleet),
    layouts: hosts.flatMap(({ id }) => layout.get(id) ?? []),
    racks,
  };
}

export const freeGpus = ({ domain }: FabricField): number[] =>
  domain.hosts.map(({ gpuCount }) => fullMask(gpuCount));
