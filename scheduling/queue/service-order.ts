/**
 * @file Orders jobs by what they have been served, or are still to be: who is next, and which running job gives way to a waiting one.
 *
 * A *rank* is larger for a job that should wait longer. A running job gives way to a waiting one of the same scope (its tenant and class, or
 * the whole fleet) and of no lower priority, whose rank is below its own. The rank of a waiting job does not change, so heaps hold it.
 *
 * Least attained service (Tiresias): the rank is a *level*. Level k lasts for `QUANTUM_GPU_MS · GROWTH^k` GPU-milliseconds of one run; a job
 * that gives way asks again one level higher (`seq` counts its requests), and a run that outlasts several levels has used up all of them.
 * Where more GPUs wait on a level or below than the scope holds, levels last longer (ours alone): waiting ÷ held times, `GROWTH` times at most. A job
 * that gave way there would wait for as many quanta, and many jobs would stand unfinished just beyond their first one (docs/decisions/0182).
 * Levels are geometric, so a job gives way O(log service) times for each other. The rest of a run that ended before another job wanted
 * its GPUs is not charged: the ledger keeps no account of single jobs.
 * Why evictions come to rest: between two arrivals, ends and ends of levels the ranks stand still, however long levels last. An eviction puts a job of a lower rank in
 * the place of one of a higher rank, which asks again at a rank above that of its successor; so it evicts nothing in return, and the
 * ranks of running jobs, in descending order, fall lexicographically. There are finitely many. A run ends `MOST_LEVELS` levels at most.
 *
 * Shortest remaining service: the rank is the rest of the time limit times the GPUs; an oracle's where limits are run times. A job gives way
 * where its rest is `CLEARLY` times the other's, because a restart costs time. Cost: O(1).
 */

import { gpuCountOf, type Lease } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { byArrival } from "./arrival.ts";
import type { Order } from "./single-queue.ts";

interface Moment {
  readonly nowMs: number;
  /** How many times as long as their quantum levels last now; 1 or more. */
  readonly stretch: number;
}

export interface ServiceOrder {
  readonly scope: "flow" | "fleet";
  readonly rankOf: (request: PendingRequest) => number;
  /** Whether a lease gives way to a request of this rank, by their ranks alone. */
  readonly givesWay: (lease: Lease, rank: number, at: Moment) => boolean;
  /** From when on it does if it runs on; infinite if never. */
  readonly givesWayAtMs: (lease: Lease, rank: number, stretch: number) => number;
  /** The largest stretch: 1 where levels always last as long. */
  readonly mostStretch: number;
  /** Of several that give way, the one with the most goes first. */
  readonly servedOf: (lease: Lease, nowMs: number) => number;
}

/** Of level 0: half a GPU-hour. */
export const QUANTUM_GPU_MS = 1_800_000;
export const GROWTH = 4;
/** The last level has no end. */
export const MOST_LEVELS = 8;

/** How often the job asked before; crashes count as well. */
export const levelOf = ({ seq }: Pick<PendingRequest, "seq">): number =>
  Math.min(MOST_LEVELS - 1, Math.max(0, seq - 1));

/** GPU-milliseconds of each level. */
const LEVEL_GPU_MS = Array.from(
  { length: MOST_LEVELS },
  (_, level) => QUANTUM_GPU_MS * GROWTH ** level,
);

/** When the run has used up all levels up to this one. */
const usedUpAtMs = ({ grantedAtMs, gpus }: Lease, level: number, stretch: number): number =>
  level >= MOST_LEVELS - 1
    ? Infinity
    : grantedAtMs + ((LEVEL_GPU_MS[level] ?? Infinity) * stretch) / gpuCountOf(gpus);

const leastServedIn = (scope: ServiceOrder["scope"], mostStretch: number): ServiceOrder => {
  const givesWayAtMs: ServiceOrder["givesWayAtMs"] = (lease, rank, stretch) =>
    levelOf(lease) > rank ? lease.grantedAtMs : usedUpAtMs(lease, rank, stretch);
  return {
    scope,
    mostStretch,
    rankOf: levelOf,
    givesWayAtMs,
    givesWay: (lease, rank, { nowMs, stretch }) => givesWayAtMs(lease, rank, stretch) <= nowMs,
    servedOf: (lease, nowMs) =>
      (LEVEL_GPU_MS[levelOf(lease)] ?? Infinity) +
      gpuCountOf(lease.gpus) * (nowMs - lease.grantedAtMs),
  };
};

/** Inside each tenant and class: ours. */
export const leastServedStretched: ServiceOrder = leastServedIn("flow", GROWTH);
/** The same without stretches. */
export const leastServed: ServiceOrder = leastServedIn("flow", 1);
export const leastServedOfAll: ServiceOrder = leastServedIn("fleet", 1);

/** Times as long as their quantum, while so many GPUs wait on a level or below and the scope holds so many. */
export const stretchOf = (
  { mostStretch }: Pick<ServiceOrder, "mostStretch">,
  waitingGpus: number,
  heldGpus: number,
): number => Math.min(mostStretch, Math.max(1, waitingGpus / Math.max(1, heldGpus)));

const CLEARLY = 2;

const restOf = ({ timeLimitMs, gang }: Pick<PendingRequest, "timeLimitMs" | "gang">): number =>
  (timeLimitMs ?? Infinity) * gang.gpus;

const restOfLease = ({ terms, grantedAtMs, gpus }: Lease, nowMs: number): number =>
  ((terms?.timeLimitMs ?? Infinity) - (nowMs - grantedAtMs)) * gpuCountOf(gpus);

const shortestRestIn = (scope: ServiceOrder["scope"]): ServiceOrder => ({
  scope,
  mostStretch: 1,
  rankOf: restOf,
  givesWay: (lease, rank, { nowMs }) => restOfLease(lease, nowMs) > CLEARLY * rank,
  servedOf: restOfLease,
  // A rest only falls: what does not give way now never will.
  givesWayAtMs: () => Infinity,
});

export const shortestRest: ServiceOrder = shortestRestIn("flow");
export const shortestRestOfAll: ServiceOrder = shortestRestIn("fleet");

/** Priority, then rank, then age. */
export const byRank =
  (rankOf: (request: PendingRequest) => number): Order =>
  (a, b) =>
    b.priority - a.priority || compare(rankOf(a), rankOf(b)) || byArrival(a, b);

/** Of two infinite ones, 0. */
const compare = (a: number, b: number): number => (a === b ? 0 : a < b ? -1 : 1);
