/**
 * @file The largest gang goes first: the order of first-fit-decreasing bin-packing.
 *
 * Large gangs start while there is room, and small ones fill the rest of the hosts. The policy set for packing joins it with tightest-fit
 * placement and without reservations. It knows neither tenants nor classes, and a stream of large gangs starves small ones.
 * Ties: priority, then age. Cost: O(log n) a request.
 */

import { byPriority } from "./fifo.ts";
import { singleQueue, type Order } from "./single-queue.ts";

export const byLargest: Order = (a, b) => b.gang.gpus - a.gang.gpus || byPriority(a, b);

export const largestFirst = singleQueue(byLargest);
