/** @file A queue that is one line in a fixed order: who was served how much does not matter. */

import type { JobId } from "../../domain/ids.ts";
import type { PendingRequest } from "../../domain/plan.ts";
import { kindOf as defaultKind } from "./kind.ts";
import { line } from "./line.ts";
import type { Queue, QueuePolicy } from "./queue-policy.ts";

/** Negative: `a` is before `b`; never 0 for two requests. */
export type Order = (a: PendingRequest, b: PendingRequest) => number;

export const oneLine = (order: Order): QueuePolicy => ({
  open: ({ requests, kindOf = defaultKind }): Queue => {
    const waiting = new Map<JobId, PendingRequest>();
    const all = line((a, b) => order(a, b) < 0, kindOf);
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
