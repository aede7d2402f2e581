/** @file Says that a request waits because an operator holds its part of the queue: who, since when, why, and the order that releases it. */

import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { queueFlags, queueName } from "../../domain/lease/queue-part.ts";
import { timeText } from "../../domain/values/wall-time.ts";
import type { QueueHold } from "../ledger/ledger.ts";

export function describeQueueHold({ jobId }: PendingRequest, hold: QueueHold): PendingReason {
  const { queue, by, atMs, reason } = hold;
  const why = reason === undefined ? "" : ` (${reason})`;
  return {
    code: "QueueOnHold",
    message: `${jobId} waits because ${by} has held ${queueName(queue)} since ${timeText(atMs)}${why}. An operator ends that with \`orbweaver queue release${queueFlags(queue)}\`.`,
    numbers: { heldSinceMs: atMs },
    holders: [],
    wakeOn: ["job-released"],
  };
}
