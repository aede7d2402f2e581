/**
 * @file Which GPUs of a fleet a gang gets: the interface of policies that choose clusters, hosts and GPUs in one go.
 *
 * Who calls says what may be taken: hosts that the request may use, each with the mask of its GPUs that are free and not kept
 * for others. So cordons, maintenance, memory, jurisdiction, avoided hosts, anti-affinity and reservations are settled before;
 * size, shape and watts are the policy's business. Hosts may be of several GPU types; a gang is of one.
 */

import type { BandwidthNote } from "../../domain/bandwidth-note.ts";
import type { BandwidthPredictor } from "../../domain/bandwidth-port.ts";
import type { ClusterId } from "../../domain/ids.ts";
import type { LinkPreference } from "../../domain/job.ts";
import type { HostGpus } from "../../domain/lease.ts";
import type { HostLayout } from "./layout.ts";
import type { LoadedLinks } from "./link-graph.ts";
import type { FleetSpread } from "./spread.ts";

export interface PlaceDemand {
  readonly gpus: number;
  readonly maxClusters: number;
  readonly isSameHost: boolean;
  /** In one cluster that has a fabric. */
  readonly isSameFabric: boolean;
  /** What may still be drawn; an absent function limits nothing. */
  readonly wattsLeft?: WattsLeft;
  /** What counts of the ways between clusters; bandwidth when absent. */
  readonly prefer?: LinkPreference;
}

/**
 * Each is asked with any one host of the rack, cluster or site; infinite where nothing limits it. The caller adds what it tolerates
 * for rounding.
 */
export interface WattsLeft {
  readonly rack?: (host: HostLayout) => number;
  readonly cluster?: (host: HostLayout) => number;
  readonly site?: (host: HostLayout) => number;
}

/** A host with GPUs that may be taken. */
export interface PlaceHost {
  readonly at: HostLayout;
  readonly freeMask: number;
}

/** What a policy may know of the fleet. */
export interface PlacePorts {
  readonly spread: FleetSpread;
  /** Absent: bandwidth is not looked at. */
  readonly bandwidth?: BandwidthPorts;
  /** Absent: clusters are joined as if all were equally near. */
  readonly links?: LinkPorts;
}

export interface LinkPorts {
  /** The links between clusters, numbered as `HostLayout.cluster`, with what gangs carry over them now. */
  readonly loaded: () => LoadedLinks;
  /** The numbers of the clusters of these GPUs, each once. */
  readonly clustersOf: (gpus: readonly HostGpus[]) => readonly number[];
}

export interface BandwidthPorts {
  /** The version that serves in a cluster; absent where none does. May throw: then the compact answer has to do. */
  readonly predictorOf: (cluster: ClusterId) => BandwidthPredictor | undefined;
  /** GPUs of each gang that runs in the cluster; absent: neighbours are not looked at. */
  readonly gangsOf?: (cluster: ClusterId) => readonly (readonly HostGpus[])[];
  /** Is told what a search has cost, in the search's own unit. */
  readonly spend?: (work: number) => void;
}

export interface Placed {
  /** Sorted by host id; absent when the policy finds none. */
  readonly gpus?: readonly HostGpus[];
  /** Its work, in hosts and table cells that were looked at. */
  readonly candidates: number;
  /** What is expected of these GPUs; absent of policies that do not look. */
  readonly bandwidth?: BandwidthNote;
}

/** Hosts come in any order, each at most once; the answer does not depend on their order. */
export type PlacePolicy = (
  demand: PlaceDemand,
  hosts: readonly PlaceHost[],
  ports: PlacePorts,
) => Placed;
