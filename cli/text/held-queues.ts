/** @file The held parts of a fleet's queue as text: who holds them, for how long, and why. */

import type { Ledger } from "../../client/index.ts";
import { queueName } from "../../domain/lease/queue-part.ts";
import type { QueueHold } from "../../scheduling/ledger/ledger.ts";
import { durationText } from "../terminal/duration.ts";

/** `tenant x: held by ada for 5m00s (new firmware)`, the oldest first. */
export const heldQueueLines = ({ holds }: Pick<Ledger, "holds">, nowMs: number): string[] =>
  [...(holds?.values() ?? [])].map((hold) => heldText(hold, nowMs));

function heldText({ queue, by, atMs, reason, isDraining }: QueueHold, nowMs: number): string {
  const drains = isDraining === true ? ", and what runs of it is not preempted" : "";
  const why = reason === undefined ? "" : ` (${reason})`;
  return `${queueName(queue)}: held by ${by} for ${durationText(Math.max(0, nowMs - atMs))}${drains}${why}`;
}

/** For `--json`. */
export const heldQueueDocuments = ({ holds }: Pick<Ledger, "holds">): readonly object[] =>
  [...(holds?.values() ?? [])].map(({ isDraining = false, ...hold }) => ({ ...hold, isDraining }));
