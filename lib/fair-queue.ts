/**
 * @file A queue that many share fairly: whoever brings little is served soon, however much others have brought before.
 *
 * Self-clocked fair queuing (Golestani 1994): what comes gets the tag `start + cost`, where it starts when the last of the same key is served, or now if
 * none of it waits; the lowest tag is served first, then the earliest. The clock of the tags is the tag that was served last. So a key is served in the order of its
 * arrivals, keys that wait share by cost, and nobody saves up. What is taken together is given in the order of its arrival: who shares shows only where not all is
 * taken. A value that never changes: adding costs O(1), taking O(n log n) for n that wait.
 */

import { appended, inOrder, type Chain } from "./chain.ts";

export interface Portion<Value> {
  readonly key: string;
  /** Above 0, in any unit. */
  readonly cost: number;
  readonly value: Value;
}

export interface FairQueue<Value> {
  /** What came since something was last taken. */
  readonly fresh: Chain<Portion<Value>> | undefined;
  /** By tag. */
  readonly tagged: readonly Tagged<Value>[];
  readonly size: number;
  readonly clock: number;
}

interface Tagged<Value> extends Portion<Value> {
  readonly tag: number;
  /** Its place in the order of arrival. */
  readonly at: number;
}

export const NOTHING_WAITS: FairQueue<never> = {
  fresh: undefined,
  tagged: [],
  size: 0,
  clock: 0,
};

export const joined = <Value>(
  queue: FairQueue<Value>,
  portion: Portion<Value>,
): FairQueue<Value> => ({
  ...queue,
  fresh: appended(queue.fresh, portion),
  size: queue.size + 1,
});

/** The next in turn, as long as `isTaken` says so, and the queue without them. */
export function served<Value>(
  queue: FairQueue<Value>,
  isTaken: (value: Value) => boolean,
): { readonly values: readonly Value[]; readonly rest: FairQueue<Value> } {
  const waiting = inTurn(queue);
  const end = waiting.findIndex(({ value }) => !isTaken(value));
  const taken = end < 0 ? waiting : waiting.slice(0, end);
  const tagged = waiting.slice(taken.length);
  const clock = taken.at(-1)?.tag ?? queue.clock;
  return {
    values: inArrival(taken),
    rest:
      tagged.length === 0
        ? NOTHING_WAITS
        : { fresh: undefined, tagged, size: tagged.length, clock },
  };
}

/** All that waits, in the order of arrival. */
export const allWaiting = <Value>(queue: FairQueue<Value>): readonly Value[] =>
  inArrival(inTurn(queue));

const inArrival = <Value>(waiting: readonly Tagged<Value>[]): readonly Value[] =>
  [...waiting].sort((a, b) => a.at - b.at).map(({ value }) => value);

function inTurn<Value>({ fresh, tagged, clock }: FairQueue<Value>): readonly Tagged<Value>[] {
  if (fresh === undefined) return tagged;
  const ends = new Map<string, number>();
  let next = 0;
  for (const { key, tag, at } of tagged) {
    ends.set(key, tag);
    next = Math.max(next, at + 1);
  }
  const added = inOrder(fresh).map((portion, index) => {
    const tag = (ends.get(portion.key) ?? clock) + portion.cost;
    ends.set(portion.key, tag);
    return { ...portion, tag, at: next + index };
  });
  return [...tagged, ...added].sort((a, b) => a.tag - b.tag || a.at - b.at);
}
