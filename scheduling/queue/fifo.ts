/**
 * @file Next is who was submitted first; among different priorities, who has the higher one.
 *
 * Priority goes before time because a user sets it on purpose, and 0 is everybody's default: among equals this is plain FIFO.
 * It also means that an endless stream of higher-priority jobs starves lower ones; within one priority nobody is overtaken
 * by a later submission. A retried or preempted job keeps its `submittedAtMs`, so it goes back to where it stood. Ties go by
 * arrival at the ledger, then by job id. Cost: O(n log n). The plain baseline of weighted fair queuing.
 */

import { byCodeUnit } from "../../domain/ids.ts";
import type { PendingRequest } from "../../domain/plan.ts";
import type { QueuePolicy } from "./queue-policy.ts";

export const fifo: QueuePolicy = ({ requests }) => [...requests].sort(byTurn);

const byTurn = (a: PendingRequest, b: PendingRequest): number =>
  b.priority - a.priority ||
  a.submittedAtMs - b.submittedAtMs ||
  a.arrival - b.arrival ||
  byCodeUnit(a.jobId, b.jobId);
