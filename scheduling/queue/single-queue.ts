/** @file Makes a queue policy of one fixed order: a single queue for all tenants and classes, without an account of service. */

import type { JobId } from "../../domain/values/ids.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { kindOf as defaultKind } from "./kind.ts";
import { orderedQueue } from "./kind-queue.ts";
import type { Queue, QueuePolicy } from "./queue-policy.ts";

/** Negative: `a` is before `b`; never 0 for two requests. */
export type Order = (a: PendingRequest, b: PendingRequest) => number;

export const singleQueue = (order: Order): QueuePolicy => ({
  open: ({ requests, kindOf = defaultKind }): Queue => {
    const waiting = new Map<JobId, PendingRequest>();
    const all = orderedQueue((a, b) => order(a, b) < 0, kindOf);
    const remove = (job: JobId): void => {
      const request = waiting.get(job);
      if (request === undefined) return;
      waiting.delete(job);
      all.remove(request);
    };
    const add = (request: PendingRequest): void => {
      remove(request.jobId);
      waiting.set(request.jobId, request);
      all.add(request);
    };
    for (const request of requests) add(request);
    return {
      size: () => waiting.size,
      add,
      remove,
      order: () => {
        const { next, dismiss, recall } = all.walk();
        return { next, dismiss, recall, noteGrant: () => undefined };
      },
    };
  },
});
