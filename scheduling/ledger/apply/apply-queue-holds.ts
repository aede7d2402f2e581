/**
 * @file Applies an operator's holds of the queue and their ends.
 *
 * A hold ends what is reserved for its requests, and withdraws the evictions for them that were not delivered (apply-evictions.ts); what was
 * delivered completes, and its GPUs are free for others. A release takes back what its requests were told, so that the next cycle tells them anew.
 * Cost: O(requests + reservations). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { queueName, type QueuePart } from "../../../domain/lease/queue-part.ts";
import { holdOf } from "../rules/queue-holds.ts";
import type { QueueHold } from "../ledger.ts";
import { NO_ROOM } from "./apply-reservations.ts";
import { setReservation } from "./transaction-leases.ts";
import { isRoomForWord, putReason } from "./transaction-size.ts";
import { noteChange, refuse, type LedgerTransaction } from "./transaction.ts";

/** Of one fleet at the same time. */
export const MAX_QUEUE_HOLDS = 200;

export function applyQueueHeld(transaction: LedgerTransaction, hold: QueueHold): void {
  const name = queueName(hold.queue);
  const holds = new Map(transaction.holds);
  const isFull = !holds.delete(name) && holds.size >= MAX_QUEUE_HOLDS;
  if (isFull || !isRoomForWord(transaction, hold)) {
    const why = isFull ? `${MAX_QUEUE_HOLDS} parts of the queue are held already` : NO_ROOM;
    refuse(transaction, "LedgerFull", `the hold of ${name} is refused: ${why}`);
    return;
  }
  holds.set(name, hold);
  setHolds(transaction, holds);
  for (const { jobId, kind } of [...transaction.reservations.values()]) {
    const request = transaction.requests.get(jobId);
    if (request === undefined || kind === "keep" || kind === "headroom") continue;
    if (holdOf(holds, request) !== undefined) setReservation(transaction, jobId, undefined);
  }
}

export function applyQueueReleased(transaction: LedgerTransaction, queue: QueuePart): void {
  const holds = new Map(transaction.holds);
  if (!holds.delete(queueName(queue))) return;
  setHolds(transaction, holds);
  for (const [job, { code }] of [...transaction.reasons]) {
    const request = transaction.requests.get(job);
    if (code !== "QueueOnHold" || request === undefined) continue;
    if (holdOf(holds, request) === undefined) putReason(transaction, job, undefined);
  }
}

function setHolds(transaction: LedgerTransaction, holds: ReadonlyMap<string, QueueHold>): void {
  transaction.holds = holds.size === 0 ? undefined : holds;
  transaction.watcher.holds?.();
  noteChange(transaction);
}
