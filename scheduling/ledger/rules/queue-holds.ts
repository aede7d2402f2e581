/**
 * @file Which requests and leases an operator's holds concern.
 *
 * Nothing of a held part of the queue starts. One exception keeps running work whole: a job that the fleet itself has stopped to move, to shrink
 * or to grow goes on on the GPUs that it keeps (a `keep` reservation). With `isDraining` nothing that runs there is evicted either.
 * Cost: O(1). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { GangRequest, Lease, Reservation } from "../../../domain/lease/lease.ts";
import { queueName, type QueuePart } from "../../../domain/lease/queue-part.ts";
import type { JobId } from "../../../domain/values/ids.ts";
import type { QueueHold } from "../ledger.ts";

export type QueueHolds = ReadonlyMap<string, QueueHold>;

type Queued = Pick<GangRequest, "class" | "tenant">;

/** Whoever is held twice hears of the wider hold. */
export function holdOf(holds: QueueHolds | undefined, of: Queued): QueueHold | undefined {
  for (const part of holds === undefined ? [] : partsOf(of)) {
    const hold = holds?.get(queueName(part));
    if (hold !== undefined) return hold;
  }
  return undefined;
}

/** Whether a hold keeps the lease from being evicted. */
export const isSpared = (
  holds: QueueHolds | undefined,
  lease: Pick<Lease, "class" | "tenant">,
): boolean =>
  holds !== undefined &&
  partsOf(lease).some((part) => holds.get(queueName(part))?.isDraining === true);

/** The hold that keeps the request from starting. */
export function startHold(
  { holds, reservations }: HeldQueue,
  request: Queued & { readonly jobId: JobId },
): QueueHold | undefined {
  const hold = holdOf(holds, request);
  return hold !== undefined && reservations?.get(request.jobId)?.kind !== "keep" ? hold : undefined;
}

interface HeldQueue {
  readonly holds?: QueueHolds | undefined;
  readonly reservations?: ReadonlyMap<JobId, Reservation> | undefined;
}

const partsOf = ({ class: jobClass, tenant }: Queued): readonly QueuePart[] => [
  { kind: "fleet" },
  { kind: "class", class: jobClass },
  { kind: "tenant", tenant },
];
