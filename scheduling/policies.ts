/**
 * @file What a cycle decides by: the queue's order, who may pass whom, how gangs are placed, and how much work it may be.
 */

import type { JobId } from "../domain/ids.ts";
import type { HeadRule } from "./heads.ts";
import type { PlacePolicy } from "./placement/place-policy.ts";
import type { QueuePolicy } from "./queue/queue-policy.ts";

/**
 * Who may pass a request that cannot start. `none`: nobody, the cycle ends with it. `easy`: whoever does not delay the first such
 * request, by the time limits that users state. `heads`: the same for the first few, whose GPUs stay set apart. `conservative`: whoever
 * delays none of those before it. `unreserved`: anybody; a large gang may wait for ever.
 */
export type Backfill = "none" | "easy" | "conservative" | "heads" | "unreserved";

export interface Policies {
  readonly queue: QueuePolicy;
  readonly backfill: Backfill;
  readonly place: PlacePolicy;
  /** Whether others are evicted for who is due, and jobs that shrank may grow again; the fleet's own policy may forbid it. */
  readonly isPreempting?: true;
  /** Whether what waits idle for a head is lent to jobs that give it back at once; where others are evicted, too. */
  readonly lends?: true;
  /** Whether GPUs are kept free for inference jobs that are to come. */
  readonly hasLatencyReserve?: true;
}

export interface CycleLimits {
  /** Offers and hosts that may be looked at. */
  readonly maxCandidates: number;
  /** Reasons in one plan: each is some hundred bytes of history. 0: nobody is told anything. */
  readonly maxReasons: number;
  /** Requests at the head of the queue whose figures are kept fresh; the others are told of a new code only. */
  readonly freshReasons: number;
}

/** Why three heads and whole places only: decision 42. */
export const HEAD_RULES: Readonly<Record<Backfill, HeadRule>> = {
  none: { most: 0, isKept: false, holdsParts: false },
  unreserved: { most: 0, isKept: false, holdsParts: false },
  easy: { most: 1, isKept: false, holdsParts: true },
  conservative: { most: 64, isKept: false, holdsParts: true },
  heads: { most: 3, isKept: true, holdsParts: false },
};

/** Whether a cycle may pass over kinds of requests: not where each is told why it waits, or one is looked for. */
export const isDismissing = ({
  limits,
  onlyFor,
}: {
  readonly limits: CycleLimits;
  readonly onlyFor?: JobId;
}): boolean => limits.maxReasons === 0 && onlyFor === undefined;
