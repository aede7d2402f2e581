/**
 * @file The link knowledge of one cycle: how wide links between clusters are now, and the load of gangs that lie over several clusters,
 * those included that this cycle has started.
 *
 * A gang loads the links of the widest tree of the bare fleet, because networks do not choose their routes by our load; so the account does
 * not depend on the order in which gangs came. It is made when it is first asked for: a cycle without a gang over several clusters pays nothing.
 * Cost: O(clusters² + GPUs' hosts of all leases), once.
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { clusterOf } from "../../domain/values/ids.ts";
import type { HostGpus, Lease } from "../../domain/lease/lease.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { linksNow } from "../capacity/site-links.ts";
import {
  addLoad,
  linksOf,
  openLinkGraph,
  openLoads,
  type LinkGraph,
  type LoadedLinks,
} from "../placement/link-graph.ts";
import type { LinkPorts, PlacePolicy } from "../placement/place-policy.ts";

interface Gangs {
  readonly nowMs: number;
  /** Grows while the cycle goes on. */
  readonly granted: readonly Pick<Lease, "gpus">[];
}

/** Undefined where no link is known: then all clusters count as equally near. */
export function openLinks(
  snapshot: Pick<Ledger, "shape" | "links" | "leases">,
  { nowMs, granted }: Gangs,
): LinkPorts | undefined {
  const { shape, leases } = snapshot;
  if (shape.clusters.length < 2 || (shape.links.length === 0 && snapshot.links === undefined))
    return undefined;
  let loaded: LoadedLinks | undefined;
  let bare: LoadedLinks | undefined;
  let added = 0;
  const numberOf = new Map(shape.clusters.map(({ id }, number) => [id, number]));
  const clustersOf = (gpus: readonly HostGpus[]): readonly number[] => [
    ...new Set(gpus.flatMap(({ host }) => numberOf.get(clusterOf(host)) ?? [])),
  ];
  const add = ({ gpus }: Pick<Lease, "gpus">): void => {
    if (loaded === undefined || bare === undefined || gpus.length < 2) return;
    addLoad(loaded, linksOf(bare, clustersOf(gpus)), 1);
  };
  return {
    clustersOf,
    loaded: () => {
      if (loaded === undefined) {
        const graph = graphOf(shape, snapshot, nowMs);
        loaded = openLoads(graph);
        bare = openLoads(graph);
        for (const lease of leases.values()) add(lease);
      }
      for (const lease of granted.slice(added)) add(lease);
      added = granted.length;
      return loaded;
    },
  };
}

/** The same policy with the links in its ports. */
export const withLinks = (place: PlacePolicy, links: LinkPorts | undefined): PlacePolicy =>
  links === undefined ? place : (demand, hosts, ports) => place(demand, hosts, { ...ports, links });

/** Cache of a pure function: without measurements, links are those of the fleet's description. */
const described = new WeakMap<FleetShape, LinkGraph>();

function graphOf(
  shape: FleetShape,
  snapshot: Pick<Ledger, "shape" | "links">,
  nowMs: number,
): LinkGraph {
  const links = linksNow(snapshot, nowMs);
  const known = links === shape.links ? described.get(shape) : undefined;
  const ids = shape.clusters.map(({ id }) => id);
  const graph = known ?? openLinkGraph(ids, links);
  if (links === shape.links) described.set(shape, graph);
  return graph;
}
