/** @file A list that grows at its end in constant time and never changes: each value knows the one before it. */

export interface Chain<Value> {
  readonly last: Value;
  readonly before: Chain<Value> | undefined;
}

/** Undefined is the empty list. */
export const appended = <Value>(chain: Chain<Value> | undefined, last: Value): Chain<Value> => ({
  last,
  before: chain,
});

/** Oldest first. Cost: linear. */
export function inOrder<Value>(chain: Chain<Value> | undefined): readonly Value[] {
  const values: Value[] = [];
  for (let link = chain; link !== undefined; link = link.before) values.push(link.last);
  return values.reverse();
}
