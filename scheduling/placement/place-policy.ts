/**
 * @file The interface of policies that choose the clusters, hosts and GPUs of a gang in one step.
 *
 * The caller says which GPUs may be taken: hosts that the request may use, each with the mask of its free GPUs that are not reserved for
 * others. So cordons, maintenance, memory, jurisdiction, avoided hosts, anti-affinity and reservations are settled before; size, shape and
 * watts are left to the policy. Hosts may be of several GPU types; a gang has one.
 */

import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import type { BandwidthPredictor } from "../../domain/bandwidth/bandwidth-port.ts";
import type { MessageProfile } from "../../domain/bandwidth/message-profile.ts";
import type { MessagesOf, Sender } from "../../domain/bandwidth/sent-messages.ts";
import type { ClusterId, HostId, TenantId } from "../../domain/values/ids.ts";
import type { LinkPreference } from "../../domain/job/job.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { HostLayout } from "./layout.ts";
import type { LoadedLinks } from "./link-graph.ts";
import type { FleetSpread } from "./spread.ts";

export interface PlaceDemand {
  readonly gpus: number;
  readonly maxClusters: number;
  readonly isSameHost: boolean;
  /** In one cluster that has a fabric. */
  readonly isSameFabric: boolean;
  /** The watts that may still be drawn; an absent function sets no limit. */
  readonly wattsLeft?: WattsLeft;
  /** The least throughput at which the gang would start (spread.ts); absent: any. */
  readonly leastThroughput?: () => number;
  /** The preferred property of paths between clusters; bandwidth when absent. */
  readonly prefer?: LinkPreference;
  /** What the gang sends, for which bandwidths are compared; the models' own when absent. */
  readonly messages?: MessageProfile;
  /** Of a gang that does not say what it sends: by what others are like it. */
  readonly sender?: Sender;
  /** What the gang trains, for which places have prices; absent: nothing is known of it. */
  readonly training?: GangTraining;
  /** Hosts that keep the weights of what the gang serves; absent: none is known. */
  readonly keepers?: ReadonlySet<HostId>;
}

export interface GangTraining {
  /** As domain/job/training-text.ts writes it. */
  readonly text: string;
  /** Whose runs have measured most of what is known of its steps. */
  readonly tenant: TenantId;
}

/**
 * Each takes any one host of the rack, cluster or site; infinite without a limit. The caller adds its tolerance
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

/** The facts about the fleet that a policy may use. */
export interface PlacePorts {
  readonly spread: FleetSpread;
  /** Absent: bandwidth is ignored. */
  readonly bandwidth?: BandwidthPorts;
  /** Absent: clusters are joined as if all were equally near. */
  readonly links?: LinkPorts;
  /** Absent: places have no prices. */
  readonly prices?: PricePorts;
}

export interface PricePorts {
  /** Whether work is left in this cycle to price places; asked before any is looked for. */
  readonly hasWork: () => boolean;
  /** Receives the cost of looking for places, in `Placed.candidates`. */
  readonly spend: (candidates: number) => void;
  /**
   * The step of what is trained on each of these places, in ms; undefined where it cannot be planned, or no work is left to plan it. Prices of one
   * call are comparable, those of two are not.
   */
  readonly of: (
    training: GangTraining,
    places: readonly (readonly HostGpus[])[],
  ) => readonly (number | undefined)[];
}

export interface LinkPorts {
  /** The links between clusters, numbered as `HostLayout.cluster`, with what gangs carry over them now. */
  readonly loaded: () => LoadedLinks;
  /** The numbers of the clusters of these GPUs, each once. */
  readonly clustersOf: (gpus: readonly HostGpus[]) => readonly number[];
}

export interface BandwidthPorts {
  /** The version that serves in a cluster; absent where none does. May throw; then the compact answer is used. */
  readonly predictorOf: (cluster: ClusterId) => BandwidthPredictor | undefined;
  /** What jobs like a gang send; absent: nothing was learned. */
  readonly messagesOf?: MessagesOf;
  /** GPUs of each gang that runs in the cluster; absent: neighbours are ignored. */
  readonly gangsOf?: (cluster: ClusterId) => readonly (readonly HostGpus[])[];
  /** The work that searches may still do, in the search's own unit; absent: any. */
  readonly left?: () => number;
  /** Receives the cost of a search. */
  readonly spend?: (work: number) => void;
}

export interface Placed {
  /** Sorted by host id; absent when the policy finds none. */
  readonly gpus?: readonly HostGpus[];
  /** Its work, in hosts and table cells that were looked at. */
  readonly candidates: number;
  /** The prediction for these GPUs; absent for policies without predictions. */
  readonly bandwidth?: BandwidthNote;
  /** Why there and not in the usual place, for people. */
  readonly why?: string;
}

/** Hosts come in any order, each at most once; the answer does not depend on their order. */
export type PlacePolicy = (
  demand: PlaceDemand,
  hosts: readonly PlaceHost[],
  ports: PlacePorts,
) => Placed;
