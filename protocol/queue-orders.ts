/** @file An operator's orders to hold a part of the queue and to release it. */

import { defineUpdate } from "@temporalio/workflow";
import type { Proven } from "./word-proof.ts";
import type { QueuePart } from "../domain/lease/queue-part.ts";

export interface QueueHoldOrder {
  readonly queue: QueuePart;
  /** What runs there is not preempted either. */
  readonly isDraining?: boolean;
  /** The operator. */
  readonly by: string;
  readonly reason?: string;
}

/** Nothing of the part starts until it is released. Replaces a former hold of the same part. */
export const holdQueueUpdate = defineUpdate<void | null, Proven<QueueHoldOrder>>("hold-queue");

export const releaseQueueUpdate = defineUpdate<void | null, Proven<Pick<QueueHoldOrder, "queue">>>(
  "release-queue",
);
