/** @file The interface of every pick policy: which GPUs of a cluster a gang gets. */

import type { HostId } from "../../domain/values/ids.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";

/** A host with GPUs that may be taken. */
export interface PickHost {
  readonly host: HostId;
  readonly freeMask: number;
  readonly gpuCount: number;
  /** Draw of one busy GPU. */
  readonly gpuWatts: number;
}

export interface PickDemand {
  readonly gpus: number;
  readonly isSameHost: boolean;
  /** Watts that the pick may draw; infinite when nothing limits them. */
  readonly wattsLeft: number;
}

/** What may be known about the hosts. */
export interface PickPorts {
  /** Predicted collective bandwidth of a GPU set of one host, GB/s; absent where nothing was measured. */
  readonly bandwidthOf?: (host: HostId, mask: number) => number | undefined;
}

/**
 * Hosts are of one cluster and one GPU type, in order of their ids, and hold enough GPUs for the demand. The answer is
 * sorted by host id; absent when the policy finds none. `candidates` is its work.
 */
export type PickPolicy = (
  demand: PickDemand,
  hosts: readonly PickHost[],
  ports: PickPorts,
) => { readonly gpus?: readonly HostGpus[]; readonly candidates: number };
