/**
 * @file A queue in the order of predicted GPU time, the least first: quasi-shortest service (Hu and others 2021), which lets every job run
 * to its end. A rival.
 *
 * The run time of a job is predicted by the mean of the fleet's last runs of the same tenant, class and size (a factor of two), else of the
 * same class and size, else of the same class; its time limit bounds it. What names and users could add, traces do not say.
 * Predictions change with every run that ends, so the queue is sorted for each pass. Cost: O(n log n) a pass.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { GUESS_MS } from "../estimates/run-times.ts";
import type { RunNote } from "../ledger/ledger.ts";
import type { Queue, QueuePolicy } from "./queue-policy.ts";
import { byRank } from "./service-order.ts";
import type { Order } from "./single-queue.ts";

/** Fewer runs predict nothing. */
const MIN_RUNS = 4;

/** `of`: the policy of a fixed order. */
export const predicted = (of: (order: Order) => QueuePolicy): QueuePolicy => ({
  open: ({ requests, ...view }): Queue => {
    const waiting = new Map<JobId, PendingRequest>();
    for (const request of requests) waiting.set(request.jobId, request);
    return {
      size: () => waiting.size,
      add: (request) => void waiting.set(request.jobId, request),
      remove: (job) => void waiting.delete(job),
      order: (nowMs, facts) => {
        const runMs = predictorOf(facts.runs ?? []);
        const ranks = new Map<JobId, number>();
        for (const request of waiting.values())
          ranks.set(request.jobId, runMs(request) * request.gang.gpus);
        const order = byRank(({ jobId }) => ranks.get(jobId) ?? Infinity);
        return of(order)
          .open({ ...view, requests: waiting.values() })
          .order(nowMs, facts);
      },
    };
  },
});

/** From the fleet's last runs. */
export function predictorOf(
  runs: readonly RunNote[],
): (request: Pick<PendingRequest, "class" | "tenant" | "gang" | "timeLimitMs">) => number {
  const sums = new Map<string, { count: number; sumMs: number }>();
  for (const { class: jobClass, tenant, gpus, grantedAtMs, endedAtMs } of runs)
    for (const key of keysOf(jobClass, tenant, gpus)) {
      const sum = sums.get(key) ?? { count: 0, sumMs: 0 };
      sum.count += 1;
      sum.sumMs += endedAtMs - grantedAtMs;
      sums.set(key, sum);
    }
  return ({ class: jobClass, tenant, gang, timeLimitMs = Infinity }) => {
    for (const key of keysOf(jobClass, tenant, gang.gpus)) {
      const known = sums.get(key);
      if (known !== undefined && known.count >= MIN_RUNS)
        return Math.min(timeLimitMs, known.sumMs / known.count);
    }
    return Math.min(timeLimitMs, GUESS_MS);
  };
}

/** Narrowest first. */
function keysOf(jobClass: string, tenant: string, gpus: number): readonly string[] {
  const size = `${jobClass} ${String(Math.floor(Math.log2(Math.max(1, gpus))))}`;
  return [`${size} ${tenant}`, size, jobClass];
}
