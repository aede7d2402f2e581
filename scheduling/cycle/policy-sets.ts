/**
 * @file The named sets of policies that a decision can be made with: ours, and the rivals behind the same interface.
 *
 * Each rival in its best reading: bin-packing takes the largest job that fits, fair sharing the tenant with the least dominant share,
 * backfilling believes what users state as time limits, as Slurm does.
 */

import { withBandwidth } from "../admission/bandwidth-placement.ts";
import { withKeepers } from "../admission/kept-placement.ts";
import { withPrices } from "../admission/priced-placement.ts";
import type { Policies } from "./cycle.ts";
import { lowestIds } from "../pick/lowest-ids.ts";
import { pairPolicy } from "../admission/paired-placement.ts";
import { buddy } from "../placement/buddy.ts";
import { firstFit } from "../placement/first-fit.ts";
import { leastSpread } from "../placement/least-spread.ts";
import { compactOnly } from "../placement/compact-only.ts";
import { DEFAULT_RIGHTS } from "../preemption/plan-preemption.ts";
import { drf as drfQueue } from "../queue/drf.ts";
import { fifo as fifoQueue } from "../queue/fifo.ts";
import { largestFirst } from "../queue/largest-first.ts";
import { leastServedStretched } from "../queue/service-order.ts";
import { tawfq as tawfqQueue } from "../queue/tawfq.ts";

/** The first cluster that holds the gang, the lowest GPU ids in it. */
export const plainPlace = pairPolicy({ placement: firstFit, pick: lowestIds });

/** Topology-aware weighted fair queuing: ours, and what the live fleet decides with; bandwidth counts where it is known. */
export const tawfq: Policies = {
  queue: tawfqQueue,
  backfill: "patient",
  place: withKeepers(withPrices(withBandwidth(compactOnly(leastSpread)))),
  placements: { buddy: compactOnly(buddy) },
  isPreempting: true,
  rights: [...DEFAULT_RIGHTS, "order"],
  order: leastServedStretched,
  isOpportunistic: true,
  hasInferenceHeadroom: true,
};

/** First come, first served: the first job that cannot start blocks the queue. */
export const fifo: Policies = { queue: fifoQueue, backfill: "none", place: plainPlace };

/** Any job that fits passes those that do not: no GPU idles, and a large gang may wait for ever. */
export const fifoBackfill: Policies = {
  queue: fifoQueue,
  backfill: "unreserved",
  place: plainPlace,
};

export const binPacking: Policies = {
  queue: largestFirst,
  backfill: "unreserved",
  place: plainPlace,
};

/** Dominant resource fairness over tenants. */
export const drf: Policies = { queue: drfQueue, backfill: "unreserved", place: plainPlace };

/** EASY backfill by the time limits that users state. */
export const easy: Policies = { queue: fifoQueue, backfill: "easy", place: plainPlace };

/** Every job that waits has a reservation. */
export const conservative: Policies = {
  queue: fifoQueue,
  backfill: "conservative",
  place: plainPlace,
};

/** The policies of the baseline, which answers when `decide` does not. */
export const baseline: Policies = { queue: fifoQueue, backfill: "persistent", place: plainPlace };
