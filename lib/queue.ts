/** @file A queue that never changes: adding costs O(1), and taking costs O(1) each in the long run. */

import { appended, type Chain } from "./chain.ts";

export interface Queue<Value> {
  readonly front: Link<Value> | undefined;
  /** Those behind the front, newest first. */
  readonly back: Chain<Value> | undefined;
  readonly size: number;
}

interface Link<Value> {
  readonly value: Value;
  readonly next: Link<Value> | undefined;
}

export const EMPTY_QUEUE: Queue<never> = { front: undefined, back: undefined, size: 0 };

export const pushed = <Value>({ front, back, size }: Queue<Value>, value: Value): Queue<Value> => ({
  front,
  back: appended(back, value),
  size: size + 1,
});

/** The oldest, `most` at most, and the queue without them. */
export function taken<Value>(
  queue: Queue<Value>,
  most: number,
): { readonly values: readonly Value[]; readonly rest: Queue<Value> } {
  const values: Value[] = [];
  let { front, back } = queue;
  while (values.length < most && values.length < queue.size) {
    if (front === undefined) [front, back] = [turned(back), undefined];
    if (front === undefined) break;
    values.push(front.value);
    front = front.next;
  }
  return { values, rest: { front, back, size: queue.size - values.length } };
}

/** Oldest first. */
function turned<Value>(chain: Chain<Value> | undefined): Link<Value> | undefined {
  let front: Link<Value> | undefined;
  for (let link = chain; link !== undefined; link = link.before)
    front = { value: link.last, next: front };
  return front;
}
