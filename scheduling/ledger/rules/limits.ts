/**
 * @file The limits on leases: a tenant's quota, the watts of cluster, site and rack, and maintenance windows.
 *
 * Quota: a GPU type that the tenant's rule names has a separate quota; `*` covers all types that are not named, together; without `*` those
 * are not limited. Above its quota, up to the borrowing limit, a tenant may hold idle GPUs: a free GPU belongs to no tenant, so nothing
 * more has to be counted, and a tenant inside its quota may take the GPUs back by preemption. A tenant without a rule is not limited.
 * Watts: every leased GPU counts with its host's draw. Power and cooling both limit, so the lower one decides: in the cluster, in the
 * site, which may have several clusters, and in the rack.
 * Maintenance: a job starts on a host only if its time limit ends before the next window begins. A job without a time limit may start
 * before a window if it is preemptible, because it can be moved; so may the tasks of an array, whose lease has no end. In a window nothing
 * starts. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { ClusterShape, MaintenanceWindow, TenantRule } from "../../../domain/fleet/fleet.ts";
import { DEFAULT_PREEMPTION, type PreemptionRule } from "../../../domain/job/job.ts";
import type { GangRequest } from "../../../domain/lease/lease.ts";

/** Sums of watts differ by rounding with the order of addition; half a milliwatt is nobody's overload. */
export const WATTS_EPSILON = 5e-4;

export interface QuotaLimit {
  /** What is counted together: a GPU type, or `*`. */
  readonly key: string;
  /** Quota and borrowing limit: more is never held. */
  readonly gpus: number;
  /** The quota: what is the tenant's own; above it, it borrows. */
  readonly ownGpus: number;
}

/** The limit that GPUs of this type count against; absent when there is none. */
export function quotaLimit(rule: TenantRule | undefined, gpuType: string): QuotaLimit | undefined {
  if (rule === undefined) return undefined;
  const key = Object.hasOwn(rule.quota, gpuType) ? gpuType : "*";
  const quota = Object.hasOwn(rule.quota, key) ? rule.quota[key] : undefined;
  return quota === undefined
    ? undefined
    : { key, gpus: quota + rule.borrowingLimit, ownGpus: quota };
}

/** What the busy GPUs of a cluster, site or rack may draw; infinite when nothing limits them. */
export function wattsLimit({
  powerBudgetWatts,
  coolingBudgetWatts,
}: Pick<ClusterShape, "powerBudgetWatts" | "coolingBudgetWatts">): number {
  return Math.min(powerBudgetWatts ?? Infinity, coolingBudgetWatts ?? Infinity);
}

/** How many GPUs of this draw fit into what is left. */
export const gpusWithin = (wattsLeft: number, gpuWatts: number): number =>
  gpuWatts > 0 ? Math.max(0, Math.floor((wattsLeft + WATTS_EPSILON) / gpuWatts)) : Infinity;

/** What may be done to the job once it runs. */
export const preemptionOf = ({
  class: jobClass,
  preemption,
}: Pick<GangRequest, "class" | "preemption">): PreemptionRule =>
  preemption ?? DEFAULT_PREEMPTION[jobClass];

/** The window that forbids to start the job on a host with these windows now: of several, the one that is over first. */
export function forbiddingWindow(
  request: Pick<GangRequest, "class" | "preemption" | "timeLimitMs" | "slots">,
  windows: readonly MaintenanceWindow[],
  nowMs: number,
): MaintenanceWindow | undefined {
  let first: MaintenanceWindow | undefined;
  for (const window of windows) {
    if (window.toMs <= nowMs || isOverBefore(request, window, nowMs)) continue;
    if (first === undefined || window.toMs < first.toMs) first = window;
  }
  return first;
}

function isOverBefore(
  request: Pick<GangRequest, "class" | "preemption" | "timeLimitMs" | "slots">,
  { fromMs }: MaintenanceWindow,
  nowMs: number,
): boolean {
  if (fromMs <= nowMs) return false;
  const { timeLimitMs, slots } = request;
  if (timeLimitMs !== undefined && nowMs + timeLimitMs > fromMs) return false;
  return (timeLimitMs !== undefined && slots === undefined) || preemptionOf(request).isPreemptible;
}

/** When the next window is over: what it forbids may start then. Infinite when there is none. */
export function nextWindowEndMs(clusters: readonly ClusterShape[], nowMs: number): number {
  const ends = clusters.flatMap(({ maintenance = [] }) => maintenance.map(({ toMs }) => toMs));
  return Math.min(Infinity, ...ends.filter((toMs) => toMs > nowMs));
}
