/**
 * @file The requests of held parts of the queue: no pass comes to them, so they are told here who holds them.
 *
 * Cost: O(requests) while anything is held.
 */

import type { PendingReason } from "../../domain/lease/pending.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { startHold } from "../ledger/rules/queue-holds.ts";
import { describeQueueHold } from "../reasons/held-queue.ts";
import { RETRY_MS, type CycleInput } from "./cycle-input.ts";
import type { CycleParts } from "./parts.ts";

/** Reports to those that do not know yet. */
export function reportHeld(
  { snapshot, nowMs, options, isReporting }: CycleInput,
  { plan }: Pick<CycleParts, "plan">,
): void {
  const { onlyFor, limits } = options;
  const { holds, requests, reasons, isReasonRoomLow } = snapshot;
  if (holds === undefined || !isReporting || onlyFor !== undefined || isReasonRoomLow === true)
    return;
  for (const request of requests.values()) {
    const hold = startHold(snapshot, request);
    if (hold === undefined) continue;
    const reason = describeQueueHold(request, hold);
    const former = reasons.get(request.jobId);
    if (former?.code === reason.code && former.message === reason.message) continue;
    if (plan.reportCount() >= limits.maxReasons) {
      plan.wakeAt(nowMs + RETRY_MS);
      return;
    }
    plan.report(request, reason);
  }
}

/** Why the job waits, if it is held. */
export function heldReason(
  { snapshot }: Pick<CycleInput, "snapshot">,
  job: JobId,
): PendingReason | undefined {
  const request = snapshot.requests.get(job);
  const hold = request && startHold(snapshot, request);
  return request && hold && describeQueueHold(request, hold);
}
