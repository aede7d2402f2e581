/** @file How many GPUs of the fleet are free, and how many could be reserved. Cost: O(pools) after a change, else O(1). */

import { popCount } from "../../domain/lease/lease.ts";
import type { Capacity, FleetCounts } from "../capacity/capacity-state.ts";

export function fleetCounts(capacity: Capacity): FleetCounts {
  const { counted, version } = capacity;
  if (counted?.version === version) return counted.counts;
  const counts = count(capacity);
  capacity.counted = { version, counts };
  return counts;
}

function count({ pools, usage: { uneven }, hosts }: Capacity): FleetCounts {
  let open = 0;
  // A request that takes less than its shares may run there.
  for (const id of uneven.keys()) {
    const { strandedMask = 0, reservedMask = 0 } = hosts.get(id) ?? {};
    open += popCount(strandedMask & ~reservedMask);
  }
  let reservable = 0;
  for (const { tallies } of pools) {
    open += tallies.open.gpus;
    reservable += tallies.unreserved.gpus;
  }
  return { open, reservable };
}
