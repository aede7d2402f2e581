/**
 * @file Which readings to take again: those far from what other sets of the same look read, if few of their look are.
 *
 * One reading can be spoilt by anything that passes on the host. A set is doubted when it is off the median of its look by more
 * than a quarter. Where more than a third of a look is off, the look is no guide (the A800 host has many sets like that, all real)
 * but every one of them is read again all the same: a dip that two further readings confirm stays. The table takes the median.
 */

import type { MeasuredReading, MeasuringOrder } from "../../domain/measuring.ts";
import { sharesKey } from "../../domain/measuring.ts";

/** Readings of a set that is doubted, in all. */
export const DOUBTED_READINGS = 3;
const FAR = 0.25;

export function doubtfulSets(
  { sets }: MeasuringOrder,
  readings: readonly MeasuredReading[],
): MeasuringOrder["sets"] {
  const gbsByKey = new Map<string, number[]>();
  for (const { shares, gbs } of readings) {
    if (gbs === undefined) continue;
    const key = sharesKey(shares);
    gbsByKey.set(key, [...(gbsByKey.get(key) ?? []), gbs]);
  }
  const byLook = new Map<string, number[]>();
  for (const { shares, look } of sets) {
    const first = gbsByKey.get(sharesKey(shares))?.[0];
    if (first !== undefined) byLook.set(look, [...(byLook.get(look) ?? []), first]);
  }
  return sets.filter(({ shares, look }) => {
    const own = gbsByKey.get(sharesKey(shares)) ?? [];
    const [first] = own;
    const usual = middle(byLook.get(look) ?? []);
    if (first === undefined || own.length >= DOUBTED_READINGS) return false;
    return Math.abs(first / usual - 1) > FAR;
  });
}

function middle(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? NaN;
}
