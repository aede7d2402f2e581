/**
 * @file The limits on what may be held at once and where: a tenant's quota, watts of cluster, site and rack, maintenance.
 *
 * Quota: a GPU type that the tenant's rule names has a quota of its own; `*` is that of all types that are not named, together;
 * without `*` those are not limited. The quota is what is the tenant's own. Above it, up to the borrowing limit, it may hold what
 * is idle: a GPU that is free is nobody's, so no more has to be counted, and a tenant inside its own quota may take it back by
 * preemption. A tenant without a rule is not limited.
 * Watts: every leased GPU counts with its host's draw; power and cooling are both kept, so the lower one rules; and so in the
 * cluster, in the site, which may have several clusters, and in the rack.
 * Maintenance: a job starts on a host only if it is over when the next window begins: its time limit says so. One without a time
 * limit may start before a window if it is preemptible, because it can be moved; and so may the tasks of an array, whose lease has
 * no end of its own. In a window nothing starts.
 *
 * Part of the constitution: `apply` judges by these functions, so a change needs a higher `APPLY_VERSION`.
 */

import type { ClusterShape, MaintenanceWindow, TenantRule } from "../domain/fleet.ts";
import { DEFAULT_PREEMPTION, type PreemptionRule } from "../domain/job.ts";
import type { GangRequest } from "../domain/lease.ts";

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
