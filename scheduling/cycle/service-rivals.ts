/**
 * @file The rivals that order jobs by service: LAS (Tiresias), QSSF (Helios), and the oracles SRSF and SJF; and any rival inside tenants' weights.
 *
 * Bare, a rival has one queue and knows neither tenants nor classes. Inside the weights it orders the jobs of each tenant and class, while
 * those share by weight and take back what they are due, as under our own policy. All of them let gangs wait for compact places, preempt
 * at the same cost, and read the same notes of past runs. An oracle reads run times where the others read time limits.
 */

import { compactOnly } from "../placement/compact-only.ts";
import { leastSpread } from "../placement/least-spread.ts";
import { DEFAULT_RIGHTS } from "../preemption/plan-preemption.ts";
import { predicted } from "../queue/predicted-order.ts";
import {
  byRank,
  leastServed,
  leastServedOfAll,
  shortestRest,
  shortestRestOfAll,
  type ServiceOrder,
} from "../queue/service-order.ts";
import { singleQueue, type Order } from "../queue/single-queue.ts";
import { weighted } from "../queue/tawfq.ts";
import type { Policies } from "./policies.ts";

const place = compactOnly(leastSpread);

/** A policy with the placement of all others. */
export const compact = (policies: Policies): Policies => ({ ...policies, place });

const preempting = (order: ServiceOrder): Policies => ({
  queue: singleQueue(byRank(order.rankOf)),
  backfill: "unreserved",
  place,
  isPreempting: true,
  rights: ["order"],
  order,
});

const running = (queue: Policies["queue"]): Policies => ({ queue, backfill: "unreserved", place });

/** The job that was served least goes first, and those that were served more give way. */
export const las: Policies = preempting(leastServedOfAll);
/** An oracle: the job with the least service left goes first. */
export const srsf: Policies = preempting(shortestRestOfAll);
/** The shortest predicted service goes first. */
export const qssf: Policies = running(predicted(singleQueue));

const bySize = byRank(({ timeLimitMs }) => timeLimitMs ?? Infinity);
/** An oracle: the shortest job goes first. */
export const sjf: Policies = running(singleQueue(bySize));

/** Tenants and classes share by weight. */
const shared = (policies: Policies, order?: ServiceOrder): Policies => ({
  ...policies,
  place,
  isPreempting: true,
  rights: order === undefined ? DEFAULT_RIGHTS : [...DEFAULT_RIGHTS, "order"],
  ...(order !== undefined && { order }),
});

/** Inside each tenant and class in this order. */
export const inWeights = (policies: Policies, order: Order): Policies =>
  shared({ ...policies, queue: weighted(order) });

export const lasInWeights: Policies = shared(
  { ...las, queue: weighted(byRank(leastServed.rankOf)) },
  leastServed,
);
export const srsfInWeights: Policies = shared(
  { ...srsf, queue: weighted(byRank(shortestRest.rankOf)) },
  shortestRest,
);
export const qssfInWeights: Policies = shared({ ...qssf, queue: predicted(weighted) });
export const sjfInWeights: Policies = shared({ ...sjf, queue: weighted(bySize) });
