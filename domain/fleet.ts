/**
 * @file A fleet: clusters of hosts with GPUs, the links between them, and the tenants that share it.
 *
 * `Fleet` is all that `fleet.yaml` says. `FleetShape` is the part of it that decisions and the ledger need in every
 * cycle; it travels in the fleet workflow's state. Measured tables stay in `HostDetails` and go by hash (ports: store).
 */

import type { BandwidthTable } from "./bandwidth-table.ts";
import type { ClusterId, HostId, TenantId } from "./ids.ts";
import type { HostTopology } from "./topology.ts";
import type { Gbps, GiB, Ms, Watts } from "./units.ts";

export interface Fleet {
  readonly name: string;
  readonly shape: FleetShape;
  /** Measured facts by host; a host without measurements is absent. */
  readonly details: ReadonlyMap<HostId, HostDetails>;
  /** Measured bandwidth of GPU sets over several hosts, by cluster. */
  readonly interHost: ReadonlyMap<ClusterId, BandwidthTable>;
}

export interface FleetShape {
  readonly clusters: readonly ClusterShape[];
  readonly links: readonly Link[];
  readonly tenants: readonly TenantRule[];
}

export interface ClusterShape {
  readonly id: ClusterId;
  readonly site: string;
  /** Where data and work legally are, e.g. `EU`. */
  readonly jurisdiction: string;
  /** The network that joins the hosts; absent when there is none worth the name. */
  readonly fabricGbps?: Gbps;
  /** What all busy GPUs of the cluster may draw together. */
  readonly powerBudgetWatts?: Watts;
  /** What the cooling can take away; heat is counted as the power drawn. */
  readonly coolingBudgetWatts?: Watts;
  readonly hosts: readonly HostShape[];
  /** Its hosts are served by one agent that runs real processes on made-up GPUs. */
  readonly isSimulated: boolean;
  /** Without a heartbeat for this long a host is silent; `DEFAULT_SILENCE_MS` when absent. */
  readonly silenceMs?: Ms;
  /** So long after its silence began a host is fenced; `DEFAULT_FENCE_MS` when absent. */
  readonly fenceMs?: Ms;
  /** `fence` when absent. */
  readonly onSilence?: SilenceRule;
}

/** `fence`: after a time the GPUs of a silent host are granted again. `hold`: never, until it answers. */
export const SILENCE_RULES = ["fence", "hold"] as const;
export type SilenceRule = (typeof SILENCE_RULES)[number];

export const DEFAULT_SILENCE_MS = 90_000;
export const DEFAULT_FENCE_MS = 600_000;

export interface HostShape {
  readonly id: HostId;
  /** e.g. `H100`. */
  readonly gpuType: string;
  /** 1 to 30: GPU sets of a host are bit masks. */
  readonly gpuCount: number;
  readonly gpuMemoryGiB: GiB;
  /** Draw of one busy GPU. */
  readonly gpuWatts: Watts;
  readonly rack?: string;
}

export interface HostDetails {
  readonly topology?: HostTopology;
  /** Bus bandwidth by GPU mask, GB/s; absent where not measured. */
  readonly bandwidth?: IntraHostBandwidth;
}

export interface IntraHostBandwidth {
  readonly gpuCount: number;
  /** Index = GPU mask; `null` where not measured (a single GPU does not communicate). */
  readonly gbsByMask: readonly (number | null)[];
}

export interface Link {
  readonly from: ClusterId;
  readonly to: ClusterId;
  readonly bandwidthGbps: Gbps;
  readonly latencyMs: Ms;
  readonly usdPerGB?: number;
}

export interface TenantRule {
  readonly id: TenantId;
  readonly weight: number;
  /** GPUs by type that the tenant may hold; a type that is not named is not limited, `*` names all others. */
  readonly quota: ReadonlyQuota;
  /** How far above its quota the tenant may go, in GPUs; 0 when absent. */
  readonly borrowingLimit: number;
}

export type ReadonlyQuota = Readonly<Record<string, number>>;
