/** @file The state of a fleet's capacity: hosts in pools, reservations, watts, and the offers that are kept until a change. */

import type { ClusterShape } from "../../domain/fleet/fleet.ts";
import type { ClusterId, HostId } from "../../domain/values/ids.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { GangShape } from "../ledger/rules/grant-check.ts";
import type { GpuNeed } from "../../domain/job/job-resources.ts";
import type { FleetIndex, WattsBudget } from "../ledger/rules/fleet-index.ts";
import type { Reserved } from "../ledger/rules/reservation-index.ts";
import type { Usage } from "../ledger/rules/usage.ts";
import type { ClusterOffer } from "../placement/placement-policy.ts";
import type { FleetSpread } from "../placement/spread.ts";
import type { Pool, PoolHost } from "./host-pools.ts";

/**
 * `ever`: every host answers and nothing is leased. `idle`: nothing is leased on the hosts that answer now. `reservable`: the same
 * without the GPUs reserved for others. `unleased`: free GPUs, reserved or not. `unpowered`: the same without a limit on watts.
 * `now`: free GPUs that are reserved for no job.
 */
export type Level = "ever" | "idle" | "reservable" | "unleased" | "unpowered" | "now";

export interface Capacity {
  readonly index: FleetIndex;
  readonly usage: Usage;
  readonly spread: FleetSpread;
  readonly pools: readonly Pool[];
  readonly hosts: ReadonlyMap<HostId, PoolHost>;
  readonly reserved: Reserved;
  /** By cluster, and by budget of site and rack: the draw of GPUs that are reserved and in no lease. */
  readonly keptWatts: Map<string, number>;
  /** By the number of their constraints and avoided hosts. */
  readonly options: Map<number, Options>;
  /** The numbers of constraints and avoided hosts, by their JSON. */
  readonly numbers: Map<string, number>;
  /** The same by the constraints themselves, or by the request where it avoids hosts, so that the JSON is written once. */
  readonly numberOf: WeakMap<object, number>;
  /** Requests of arrays as those of one gang, see `asOneGang`. */
  readonly gangs: WeakMap<PendingRequest, PendingRequest>;
  /** The hosts of long lists of GPUs, which do not change; undefined for one that the fleet has not. */
  readonly hostsOf: WeakMap<readonly HostGpus[], readonly (PoolHost | undefined)[]>;
  /** Budgets of sites, by site. */
  readonly sites: ReadonlyMap<string, WattsBudget>;
  /** The counts of a version, see fleet-counts.ts. */
  counted?: { readonly version: number; readonly counts: FleetCounts };
  /** Changes with every change of leases, reservations or host conditions; equal versions are of equal capacities. */
  version: number;
  /** `version` at the last change of leases or hosts. */
  leaseVersion: number;
  /** `version` at the last change of a host's condition. */
  hostVersion: number;
  /** The greatest version so far: that of a trial that was taken back is never given again. */
  lastVersion: number;
}

/** The versions of a capacity, for whoever makes changes and takes all of them back. */
export type Versions = Pick<Capacity, "version" | "leaseVersion" | "hostVersion">;

export const versionsOf = ({ version, leaseVersion, hostVersion }: Capacity): Versions => ({
  version,
  leaseVersion,
  hostVersion,
});

/** What was known of the capacity before the changes is true again. */
export const restoreVersions = (capacity: Capacity, versions: Versions): void => {
  Object.assign(capacity, versions);
};

export interface FleetCounts {
  /** Free, and reserved for no job. */
  readonly open: number;
  /** Reserved for nobody, free or leased. */
  readonly reservable: number;
}

/** The hosts that may serve requests with the same constraints, one entry a GPU type, in the fleet's order. */
export interface Options {
  /** Unique among the options of one capacity; absent for the options of one request at one time. */
  readonly number?: number;
  readonly types: readonly TypeOptions[];
}

export interface TypeOptions {
  readonly gpuType: string;
  readonly groups: readonly PoolGroup[];
  readonly shape: GangShape;
  readonly avoided: ReadonlySet<HostId>;
  /** Hosts on which the request may not start now: a job with its label is there, or maintenance is near. */
  readonly closed: ReadonlySet<HostId>;
  /** What each GPU takes of its host, of requests that say so in a fleet whose hosts do. */
  readonly need?: GpuNeed;
  readonly cache: Partial<Record<Level, CachedOffers>>;
  /** By cluster; undefined stands for all. */
  readonly hosts: Map<ClusterId | undefined, readonly PoolHost[]>;
}

export interface CachedOffers {
  readonly version: number;
  readonly offers: readonly ClusterOffer[];
  readonly largest: number;
}

export interface PoolGroup {
  readonly cluster: ClusterShape;
  readonly rank: number;
  /** Least draw first, so that the GPUs that fit into the watts are counted exactly. */
  readonly pools: readonly Pool[];
}
