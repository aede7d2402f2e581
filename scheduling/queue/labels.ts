/**
 * @file Labels of requests: a number says what a pass over the queue knows of all requests that have it.
 *
 * A queue may keep the label of a request for as long as it waits, and pass over those with some labels without a look at any: the labels stand
 * side by side, and each request is some hundred bytes somewhere else.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";

export const NO_LABEL = 0;

/** Kept keys; their labels stay in the queue, and are never given again. */
const MOST_KEYS = 20_000;

export interface Labels {
  /** Equal for equal keys, but for one that was forgotten in between. */
  readonly of: (key: string) => number;
}

export interface PassingOver {
  readonly labels: ReadonlySet<number>;
  /** How many requests were passed over; the walk counts on. */
  count: number;
}

export interface LabelledWalk {
  /** O(log n). Returns every request once, except those that were dismissed, and those that `over` passes over. */
  readonly next: (over?: PassingOver) => PendingRequest | undefined;
  /** Of the request that was returned last: `NO_LABEL` where it has none. Both are absent where the queue keeps none. */
  readonly label?: () => number;
  readonly setLabel?: (label: number) => void;
}

export function openLabels(): Labels {
  const known = new Map<string, number>();
  let last = NO_LABEL;
  return {
    of(key) {
      const before = known.get(key);
      if (before !== undefined) return before;
      if (known.size >= MOST_KEYS) known.clear();
      last += 1;
      known.set(key, last);
      return last;
    },
  };
}
