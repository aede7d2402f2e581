/**
 * @file First in, first out within each priority: the higher priority goes first, then the earlier submission.
 *
 * Priority goes before time because a user sets it on purpose and 0 is the default: among equal priorities this is plain FIFO.
 * An endless stream of higher-priority jobs therefore starves lower ones; within one priority no later submission overtakes an earlier
 * one. A retried or preempted job keeps its `submittedAtMs` and so its place. Ties go by arrival at the ledger, then by job id.
 * It is the plain baseline of weighted fair queuing; conservative and EASY backfill use the same order. Cost: O(log n) a request.
 */

import { byArrival } from "./arrival.ts";
import { singleQueue, type Order } from "./single-queue.ts";

export const byPriority: Order = (a, b) => b.priority - a.priority || byArrival(a, b);

export const fifo = singleQueue(byPriority);
