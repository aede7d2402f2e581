/**
 * @file Passes over requests of a kind of which one has failed: the others of its kind would get no more.
 *
 * While jobs with reservations are still to come, those stay in the queue. What they change may help a dismissed kind, so a change of
 * reservations recalls all that were dismissed before. Only cycles that report no reasons dismiss. Cost: O(reservations) a failure.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { canShrink } from "../ledger/rules/grant-check.ts";
import type { LabelledWalk } from "../queue/labels.ts";
import type { QueueCursor } from "../queue/queue-policy.ts";
import { isAnyOpenTo } from "../reservation/access.ts";
import { hasRoom } from "../reservation/reservation-set.ts";
import type { CycleInput } from "./cycle-input.ts";
import { isAnyIdle } from "./early-stop.ts";
import type { EquivalenceMemo } from "./equivalence-memo.ts";
import type { CycleParts } from "./parts.ts";
import { isDismissing } from "./policies.ts";
import { leastLimitMs } from "./scheduler-cache.ts";

export interface DismissingCursor extends LabelledWalk, Pick<QueueCursor, "noteGrant"> {
  /** The request has failed: its kind is passed over where no request of it can get more. */
  readonly noteFailure: (gang: PendingRequest) => void;
}

export interface DismissalState {
  readonly memo: EquivalenceMemo;
  /** Jobs with backfill reservations that the pass has still to look at. */
  readonly unvisited: ReadonlySet<JobId>;
}

export function openDismissingCursor(
  cursor: QueueCursor,
  input: CycleInput,
  {
    parts: { reservations, preemption },
    memo,
    unvisited,
  }: DismissalState & { readonly parts: Pick<CycleParts, "reservations" | "preemption"> },
): DismissingCursor {
  const { snapshot, options } = input;
  /** The count of reservation changes when a kind was dismissed early; absent when none was. */
  let dismissedAt: number | undefined;
  return {
    next(over) {
      if (dismissedAt !== undefined && dismissedAt !== reservations.changes) {
        cursor.recall();
        dismissedAt = undefined;
      }
      return cursor.next(over);
    },
    ...(cursor.label && { label: cursor.label }),
    ...(cursor.setLabel && { setLabel: cursor.setLabel }),
    noteGrant: cursor.noteGrant,
    noteFailure(gang) {
      if (!isDismissing(options) || hasRoom(reservations) || !memo.isFinal(gang)) return;
      const isEarly = unvisited.size > 0;
      if (isEarly && (canShrink(gang.gang) || preemption.hasSearches())) return;
      if (isAnyOpenTo(reservations, leastLimitMs(gang), gang.class)) return;
      if (isAnyIdle(input, reservations)) return;
      const stays = [...unvisited].flatMap((job) => snapshot.requests.get(job) ?? []);
      cursor.dismiss(gang, stays);
      if (isEarly) dismissedAt = reservations.changes;
    },
  };
}
