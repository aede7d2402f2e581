/** @file Sets of small numbers as bit masks: up to 30 members, so that every mask is a positive 32-bit integer. */

/** Bits 0 to `count` − 1. A shift, because a power costs as much as the rest of a cycle over thousands of hosts. */
export const fullMask = (count: number): number =>
  count <= 0 ? 0 : count > MOST_SHIFTED ? 2 ** count - 1 : (1 << count) - 1;

/** One more would be the sign. */
const MOST_SHIFTED = 30;

export const maskOf = (members: readonly number[]): number =>
  members.reduce((mask, member) => mask | (1 << member), 0);

/** The members, ascending. */
export function membersOf(mask: number): readonly number[] {
  const members: number[] = [];
  for (let rest = mask, at = 0; rest !== 0; rest >>>= 1, at += 1)
    if ((rest & 1) === 1) members.push(at);
  return members;
}

/** The `count` lowest set bits of `mask`; all of them when it has fewer. */
export function lowestBits(mask: number, count: number): number {
  let rest = mask;
  let lowest = 0;
  for (let taken = 0; taken < count && rest !== 0; taken += 1) {
    lowest |= rest & -rest;
    rest &= rest - 1;
  }
  return lowest;
}
