/**
 * @file Chooses the readings to repeat: those that differ from the other sets of the same look, if few of that look do.
 *
 * One reading can be spoilt by any passing load on the host. A set is doubtful when it differs from the median of its look by
 * more than a quarter. Where more than a third of a look differs, the look is no guide (the A800 host has many such sets, all
 * real), but each is still repeated: a dip that two further readings confirm stays. The table takes the median.
 */

import type { MeasuredReading, MeasuringOrder } from "../../domain/bandwidth/measuring.ts";
import { sharesKey } from "../../domain/bandwidth/measuring.ts";

/** Total readings of a doubtful set. */
const UNCONFIRMED_READINGS = 3;
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
    if (first === undefined || own.length >= UNCONFIRMED_READINGS) return false;
    return Math.abs(first / usual - 1) > FAR;
  });
}

function middle(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? NaN;
}
