/**
 * @file The plan of a cycle while it is made: grants, evictions, reports and the time of the next cycle.
 *
 * A grant takes effect on the capacity at once, so that later requests are judged after it; `undoGrants` takes all of them back.
 * Cost: O(hosts of the grant).
 */

import type { Lease, RequestKey } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import {
  MAX_PLAN_ITEMS,
  type EvictItem,
  type PendingRequest,
  type Plan,
  type PlanItem,
  type ReserveItem,
} from "../../domain/lease/plan.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { joinItem } from "../admission/fill-arrays.ts";
import type { CycleView } from "../admission/feasibility.ts";
import { endAt, noteGrant, undoGrant, type FreshGrant } from "../capacity/capacity-changes.ts";
import { opportunisticGpus } from "../ledger/rules/reservation-index.ts";
import { labelled, needing } from "../ledger/rules/usage.ts";

/** A job that runs on GPUs of the plan. */
export type Holder = Pick<Lease, "jobId" | "tenant" | "gpus">;

/** Leases to evict and reservations to make for those who are to have their GPUs. */
export interface EvictionSet {
  readonly evict: readonly EvictItem[];
  readonly reserve: readonly ReserveItem[];
}

export interface PlanDraft {
  readonly items: readonly PlanItem[];
  readonly evictions: readonly EvictItem[];
  /** As the capacity has them. */
  readonly grants: readonly FreshGrant[];
  /** One entry a grant. */
  readonly holders: readonly Holder[];
  /** In the order of their first grants. */
  readonly grantedJobs: ReadonlySet<JobId>;
  /** Whether it has as many items as a plan may have. */
  readonly isFull: () => boolean;
  readonly grant: (request: PendingRequest, item: PlanItem) => void;
  readonly evict: (found: EvictionSet) => void;
  readonly report: (request: RequestKey, reason: PendingReason) => void;
  /** The job got GPUs after its report. */
  readonly withdrawReport: (job: JobId) => void;
  readonly reportCount: () => number;
  /** Decide again at this time, or earlier. */
  readonly wakeAt: (atMs: number) => void;
  /** `reserved`: the changes of backfill reservations. */
  readonly build: (reserved: readonly ReserveItem[], stats: Plan["stats"]) => Plan;
  readonly undoGrants: () => void;
}

export function openPlanDraft({
  capacity,
  nowMs,
}: Pick<CycleView, "capacity" | "nowMs">): PlanDraft {
  const items: PlanItem[] = [];
  const evictions: EvictItem[] = [];
  const reserve: ReserveItem[] = [];
  const grants: FreshGrant[] = [];
  const holders: Holder[] = [];
  const grantedJobs = new Set<JobId>();
  const pending: Plan["pending"][number][] = [];
  let wakeAtMs = Infinity;
  return {
    items,
    evictions,
    grants,
    holders,
    grantedJobs,
    isFull: () => items.length >= MAX_PLAN_ITEMS,
    grant(request, item) {
      const { jobId, tenant } = request;
      const { gpus } = item;
      joinItem(items, item);
      const grant = freshGrant(request, item);
      noteGrant(capacity, grant);
      grants.push(grant);
      holders.push({ jobId, tenant, gpus });
      grantedJobs.add(jobId);
    },
    evict(found) {
      evictions.push(...found.evict);
      reserve.push(...found.reserve);
    },
    report({ jobId, runId, seq }, reason) {
      pending.push({ request: { jobId, runId, seq }, reason });
    },
    withdrawReport(job) {
      if (pending.at(-1)?.request.jobId === job) pending.pop();
    },
    reportCount: () => pending.length,
    wakeAt(atMs) {
      wakeAtMs = Math.min(wakeAtMs, atMs);
    },
    build(reserved, stats) {
      const all = [...reserved, ...reserve];
      return {
        items,
        ...(all.length > 0 && { reserve: all }),
        ...(evictions.length > 0 && { evict: evictions }),
        pending,
        ...(wakeAtMs < Infinity && { wakeAtMs }),
        stats,
      };
    },
    undoGrants() {
      for (const grant of [...grants].reverse()) undoGrant(capacity, grant);
    },
  };

  function freshGrant(
    request: PendingRequest,
    { gpus, slots, isOpportunistic }: PlanItem,
  ): FreshGrant {
    const { jobId, tenant, timeLimitMs, constraints } = request;
    const opportunistic =
      isOpportunistic === true
        ? { opportunistic: opportunisticGpus(capacity.reserved, request, { gpus, nowMs }) }
        : {};
    return {
      name: `grant ${grants.length}`,
      tenant,
      gpus,
      endAtMs: endAt(nowMs, slots === undefined ? timeLimitMs : undefined),
      ...opportunistic,
      ...labelled(jobId, constraints.antiAffinity),
      ...needing(constraints.resources),
    };
  }
}
