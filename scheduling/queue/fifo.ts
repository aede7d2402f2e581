/**
 * @file Next is who was submitted first; among different priorities, who has the higher one.
 *
 * Priority goes before time because a user sets it on purpose, and 0 is everybody's default: among equals this is plain FIFO.
 * It also means that an endless stream of higher-priority jobs starves lower ones; within one priority nobody is overtaken
 * by a later submission. A retried or preempted job keeps its `submittedAtMs`, so it goes back to where it stood. Ties go by
 * arrival at the ledger, then by job id. Cost: O(log n) a request. The plain baseline of weighted fair queuing; conservative and
 * EASY backfill order by it, too.
 */

import { byArrival } from "./arrival.ts";
import { oneLine, type Order } from "./one-line.ts";

export const byPriority: Order = (a, b) => b.priority - a.priority || byArrival(a, b);

export const fifo = oneLine(byPriority);
