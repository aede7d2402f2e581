/**
 * @file A fleet: clusters of hosts with GPUs, the links between them, and the tenants that share it.
 *
 * `Fleet` is everything in `fleet.yaml`. `FleetShape` is the part that decisions and the ledger need in every cycle; it is in
 * the fleet workflow's state. Measured tables are in `HostDetails` and are passed by hash (the store).
 */

import type { Access } from "./access-schema.ts";
import type { JobNoticeRule } from "./job-notices.ts";
import type { KeepRules } from "./keep.ts";
import type { NoticeTarget } from "./notify-schema.ts";
import type { BandwidthTable } from "../bandwidth/bandwidth-table.ts";
import type { ClusterId, HostId, TenantId } from "../values/ids.ts";
import type { HostTopology } from "../values/topology.ts";
import type { JobClass } from "../job/job.ts";
import { ms, type Gbps, type GiB, type Ms, type Watts } from "../values/units.ts";

export interface Fleet {
  readonly name: string;
  readonly shape: FleetShape;
  /** Measured facts by host; a host without measurements is absent. */
  readonly details: ReadonlyMap<HostId, HostDetails>;
  /** Measured bandwidth of GPU sets over several hosts, by cluster. */
  readonly interHost: ReadonlyMap<ClusterId, BandwidthTable>;
  /** Who may do what through the submit service. It stays on the machine where that runs: no workflow has it. */
  readonly access?: Access;
  /** Who is told of jobs and hosts. It stays on the machine of the console. */
  readonly notify?: readonly NoticeTarget[];
  /** Which addresses jobs may name, with what the console knows of them. It stays there, too; of the addresses alone the shape has a list. */
  readonly jobNotices?: readonly JobNoticeRule[];
  /** What becomes of jobs that use none of their GPUs, by tenant. It stays there, too. */
  readonly idle?: ReadonlyMap<TenantId, IdleRule>;
  /** What `orbweaver house --collect` removes on the machine of the file. Absent: by `DEFAULT_KEEP`. */
  readonly keep?: KeepRules;
}

/** `suspend` notifies, too. */
export const IDLE_ACTS = ["warn", "notify", "suspend"] as const;
export type IdleAct = (typeof IDLE_ACTS)[number];

export interface IdleRule {
  readonly afterMs: Ms;
  readonly act: IdleAct;
}

export interface FleetShape {
  readonly clusters: readonly ClusterShape[];
  readonly links: readonly Link[];
  readonly tenants: readonly TenantRule[];
  /** Limits over all clusters of one site; a site that is not named has no limits of its own. */
  readonly sites?: readonly SiteRule[];
  /** `DEFAULT_POLICY` when absent. */
  readonly policy?: FleetPolicy;
  /** Under which `notify:` of job files may name addresses; none where absent. */
  readonly noticeAddresses?: readonly string[];
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

/** Hosts that must be empty for a time. */
export interface MaintenanceWindow {
  /** Absent: all hosts of the cluster. */
  readonly hosts?: readonly HostId[];
  readonly fromMs: number;
  readonly toMs: number;
  readonly reason?: string;
}

/** The figures of weighted fair queuing and preemption. */
export interface FleetPolicy {
  readonly classWeights: Readonly<Record<JobClass, number>>;
  /** A waiting job gains one point of priority in this time, so age overtakes any priority. */
  readonly agingMs: Ms;
  readonly isPreempting: boolean;
  /** Most GPU-seconds of other jobs' work that preemptions for one tenant may destroy in an hour. */
  readonly preemptionBudgetGpuSeconds: number;
  /** Most times that one job gives way to others, at least 1; without a limit when absent. */
  readonly maxPreemptions?: number;
  /** So long a job that has given way runs before it may have to again; its own protected time when absent. */
  readonly coolDownMs?: Ms;
  /** The largest part of the fleet that is kept free for future inference jobs. */
  readonly maxReserveShare: number;
  /** Requests that may wait inside the fleet, jobs called in from lobbies included; `DEFAULT_PLACES` when absent. */
  readonly places?: number;
  /** How gangs get their GPUs; by least spread and best bandwidth when absent. */
  readonly placement?: FleetPlacement;
}

export const FLEET_PLACEMENTS = ["buddy"] as const;
export type FleetPlacement = (typeof FLEET_PLACEMENTS)[number];

export const DEFAULT_PLACES = 20_000;

export const DEFAULT_POLICY: FleetPolicy = {
  classWeights: { inference: 100, interactive: 10, training: 1 },
  agingMs: ms(60_000),
  isPreempting: true,
  preemptionBudgetGpuSeconds: 36_000,
  maxReserveShare: 0.05,
};

export interface ClusterShape {
  readonly id: ClusterId;
  readonly site: string;
  /** Where data and work legally are, e.g. `EU`. */
  readonly jurisdiction: string;
  /** The network of the hosts; absent when there is none worth naming. */
  readonly fabricGbps?: Gbps;
  /** Limit of the power that all busy GPUs of the cluster draw together. */
  readonly powerBudgetWatts?: Watts;
  /** Capacity of the cooling; the heat equals the power drawn. */
  readonly coolingBudgetWatts?: Watts;
  readonly hosts: readonly HostShape[];
  /** One agent serves its hosts and runs real processes on simulated GPUs. */
  readonly isSimulated: boolean;
  /** Without a heartbeat for this long a host is silent; `DEFAULT_SILENCE_MS` when absent. */
  readonly silenceMs?: Ms;
  /** Time after the start of its silence at which a host is fenced; `DEFAULT_FENCE_MS` when absent. */
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
  /** What its jobs share, each GPU an equal part; where absent its agent takes what the machine has. */
  readonly cpus?: number;
  readonly hostMemoryGiB?: GiB;
  /** Beside that, for the weights of served models that it keeps; where absent its agent takes of what jobs do not share. */
  readonly weightsGiB?: GiB;
  readonly rack?: string;
  /** Its GPUs stand for processors: models that Orbweaver serves run on these. */
  readonly devices?: "cpu";
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
