/**
 * @file The last search for a better reservation, remembered with the GPUs that are reserved now.
 *
 * A placement policy is a function of the hosts and their free GPUs. While those are as they were at the last search, its answer holds and
 * the search need not be repeated (improvement-bound.ts). Host objects belong to one capacity, so an answer never serves another one.
 */

import type { HostGpus } from "../../domain/lease/lease.ts";
import type { PoolHost } from "../capacity/host-pools.ts";

export interface ReservationSearch {
  readonly hosts: readonly PoolHost[];
  readonly size: number;
  /** GPUs that would be free by then, host by host. */
  readonly masks: Uint32Array;
  /** The answer of the placement policy. */
  readonly gpus: readonly HostGpus[];
}

const LAST_SEARCHES = new WeakMap<readonly HostGpus[], ReservationSearch>();

/** `reserved`: the GPUs of the reservation that was to be improved. */
export function noteSearch(reserved: readonly HostGpus[], search: ReservationSearch): void {
  LAST_SEARCHES.set(reserved, search);
}

export const lastSearch = (reserved: readonly HostGpus[]): ReservationSearch | undefined =>
  LAST_SEARCHES.get(reserved);
