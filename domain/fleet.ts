/**
 * @file A fleet: clusters of hosts with GPUs, the links between them, and the tenants that share it.
 *
 * `Fleet` is all that `fleet.yaml` says. `FleetShape` is the part of it that decisions and the ledger need in every
 * cycle; it travels in the fleet workflow's state. Measured tables stay in `HostDetails` and go by hash (ports: store).
 */

import type { BandwidthTable } from "./bandwidth-table.ts";
import type { ClusterId, HostId, TenantId } from "./ids.ts";
import type { HostTopology } from "./topology.ts";
import type { JobClass } from "./job.ts";
import { ms, type Gbps, type GiB, type Ms, type Watts } from "./units.ts";

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
  /** Limits over all clusters of one site; a site that is not named has none of its own. */
  readonly sites?: readonly SiteRule[];
  /** `DEFAULT_POLICY` when absent. */
  readonly policy?: FleetPolicy;
}

export interface SiteRule {
  readonly id: string;
  readonly powerBudgetWatts?: Watts;
  readonly coolingBudgetWatts?: Watts;
}

export interface RackRule {
  readonly id: string;
  readonly powerBudgetWatts?: Watts;
  readonly coolingBudgetWatts?: Watts;
}

/** Hosts that are to be empty for a time. */
export interface MaintenanceWindow {
  /** Absent: all hosts of the cluster. */
  readonly hosts?: readonly HostId[];
  readonly fromMs: number;
  readonly toMs: number;
  readonly reason?: string;
}

/** How the fleet is shared: the figures behind weighted fair queuing and preemption. */
export interface FleetPolicy {
  readonly classWeights: Readonly<Record<JobClass, number>>;
  /** A waiting job gains one point of priority in this time, so age overtakes any priority. */
  readonly agingMs: Ms;
  readonly isPreempting: boolean;
  /** GPU-seconds of others' work that the jobs of one tenant may cause to be lost in an hour, at most. */
  readonly preemptionBudgetGpuSeconds: number;
  /** The largest part of the fleet that is kept free for inference jobs that are to come. */
  readonly maxReserveShare: number;
}

export const DEFAULT_POLICY: FleetPolicy = {
  classWeights: { inference: 100, interactive: 10, training: 1 },
  agingMs: ms(60_000),
  isPreempting: true,
  preemptionBudgetGpuSeconds: 36_000,
  maxReserveShare: 0.03,
};

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
  /** Limits of racks; a rack that is not named has none of its own. */
  readonly racks?: readonly RackRule[];
  readonly maintenance?: readonly MaintenanceWindow[];
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
  /** GPU masks of its NVLink domains and of its NUMA nodes, ascending by lowest GPU, where known. */
  readonly nvlinkDomains?: readonly number[];
  readonly numaNodes?: readonly number[];
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
