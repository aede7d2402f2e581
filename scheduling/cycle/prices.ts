/**
 * @file The prices of places in one cycle: its gangs share `MOST_WORK`, so that a crowd of them cannot make the cycle overrun its deadline.
 *
 * Each may take half of what is left: the first are searched whole, later ones less, and a gang that comes when little is left gets the usual place.
 */

import type { DecidePorts } from "../admission/try-start.ts";
import type { PricesOf } from "../placement/place-policy.ts";

/** In cells of predicted plans, of 3 to 12 µs of a core each: less than half of what a cycle may take. */
const MOST_WORK = 10_000;
const PART_OF_REST = 1 / 2;

export function openPrices(pricesOf: NonNullable<DecidePorts["pricesOf"]>): PricesOf {
  let left = MOST_WORK;
  return (training, places) => {
    const { stepMs, work } = pricesOf(training, places, Math.floor(left * PART_OF_REST));
    left -= work;
    return stepMs;
  };
}
