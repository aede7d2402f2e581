/**
 * @file How long each request has waited for its tenant's quota: from the plan that said so to the one that says otherwise.
 *
 * What a request had waited before the first plan that is looked at is not known and counts as nothing. Cost of a plan: O(requests whose reason changed
 * + those that have waited for quota and still wait).
 */

import type { Plan } from "../../domain/lease/plan.ts";
import type { JobId } from "../../domain/values/ids.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

interface QuotaWait {
  readonly doneMs: number;
  /** Absent while it waits for something else. */
  readonly sinceMs?: number;
}

export interface QuotaClock {
  /** Each plan, with the ledger after it. */
  look(plan: Pick<Plan, "pending">, after: Ledger, nowMs: number): void;
  /** Milliseconds of a request that the plan looked at last, of this time, has granted; of an array, which may go on waiting, up to now. */
  taken(job: JobId, nowMs: number): number;
}

export function quotaClock(): QuotaClock {
  const waits = new Map<JobId, QuotaWait>();
  const left = new Map<JobId, number>();
  return {
    look: (plan, after, nowMs) => {
      left.clear();
      for (const [job, wait] of waits) {
        const isWaiting = after.requests.has(job);
        if (isWaiting && after.reasons.get(job)?.code === "WaitingForQuota") continue;
        const doneMs = waitedMs(wait, nowMs);
        if (isWaiting) waits.set(job, { doneMs });
        else {
          waits.delete(job);
          left.set(job, doneMs);
        }
      }
      for (const { request } of plan.pending) {
        const job = request.jobId;
        const { doneMs = 0, sinceMs } = waits.get(job) ?? {};
        if (after.reasons.get(job)?.code === "WaitingForQuota" && sinceMs === undefined)
          waits.set(job, { doneMs, sinceMs: nowMs });
      }
    },
    taken: (job, nowMs) => left.get(job) ?? waitedMs(waits.get(job), nowMs),
  };
}

const waitedMs = ({ doneMs, sinceMs }: QuotaWait = { doneMs: 0 }, nowMs: number): number =>
  doneMs + (sinceMs === undefined ? 0 : Math.max(0, nowMs - sinceMs));
