/** @file How many GPUs of the fleet are free, and how many could be reserved. Cost: O(pools) after a change, else O(1). */

import type { Capacity, FleetCounts } from "../capacity/capacity-state.ts";

export function fleetCounts(capacity: Capacity): FleetCounts {
  const { counted, version } = capacity;
  if (counted?.version === version) return counted.counts;
  const counts = count(capacity);
  capacity.counted = { version, counts };
  return counts;
}

function count({ pools }: Capacity): FleetCounts {
  let open = 0;
  let reservable = 0;
  for (const { tallies } of pools) {
    open += tallies.open.gpus;
    reservable += tallies.unreserved.gpus;
  }
  return { open, reservable };
}
