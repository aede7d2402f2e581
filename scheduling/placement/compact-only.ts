/** @file A placement policy that gives no place at which the gang would be slower than its demand allows: the gang waits instead. Cost: the inner policy's. */

import type { PlacePolicy } from "./place-policy.ts";
import { throughputOf } from "./spread.ts";

/** Throughputs are quotients of sums of floats. */
const EPSILON = 1e-9;

export const compactOnly =
  (place: PlacePolicy): PlacePolicy =>
  (demand, hosts, ports) => {
    const placed = place(demand, hosts, ports);
    if (placed.gpus === undefined || demand.leastThroughput === undefined) return placed;
    const isFastEnough =
      throughputOf(placed.gpus, ports.spread) >= demand.leastThroughput() - EPSILON;
    return isFastEnough ? placed : { candidates: placed.candidates };
  };
