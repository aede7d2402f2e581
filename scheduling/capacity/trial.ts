/**
 * @file A trial on the capacity: leases that are gone and grants that are made, all of which is taken back when the trial ends.
 *
 * The last change is taken back first, also when the attempt throws. Cost: O(hosts of the leases and grants).
 */

import type { Lease } from "../../domain/lease/lease.ts";
import { noteGrant, noteLease, undoGrant, type FreshGrant } from "./capacity-changes.ts";
import { restoreVersions, versionsOf, type Capacity } from "./capacity-state.ts";

export interface CapacityTrial {
  readonly removeLease: (lease: Lease) => void;
  readonly addGrant: (grant: FreshGrant) => void;
}

export function tryOut<Value>(capacity: Capacity, attempt: (trial: CapacityTrial) => Value): Value {
  const undo: (() => void)[] = [];
  const before = versionsOf(capacity);
  try {
    return attempt({
      removeLease: (lease) => {
        noteLease(capacity, lease, undefined);
        undo.push(() => noteLease(capacity, undefined, lease));
      },
      addGrant: (grant) => {
        noteGrant(capacity, grant);
        undo.push(() => undoGrant(capacity, grant));
      },
    });
  } finally {
    for (const takeBack of undo.reverse()) takeBack();
    restoreVersions(capacity, before);
  }
}
