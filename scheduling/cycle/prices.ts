/**
 * @file The prices of places in one cycle: its gangs share `MOST_WORK`, so that a crowd of them cannot make the cycle overrun its deadline.
 *
 * Each may take half of what is left: the first are searched whole, later ones less, and a gang that comes when less than `LEAST_WORK` is left gets
 * the usual place before anybody has looked for others. Looking for places and asking for prices cost work as well, whatever the answer.
 */

import type { DecidePorts } from "../admission/try-start.ts";
import type { PricePorts } from "../placement/place-policy.ts";

/** In cells of predicted plans and what is tried for them, of 3 to 10 µs of a core each: less than half of what a cycle may take. */
const MOST_WORK = 20_000;
/** Too little to price two places. */
const LEAST_WORK = 100;
const PART_OF_REST = 1 / 2;
/** Hosts and table cells that are looked at in a search for places, for one cell. */
const CANDIDATES_LOOKED_AT = 16;

export function openPrices(pricesOf: NonNullable<DecidePorts["pricesOf"]>): PricePorts {
  let left = MOST_WORK;
  return {
    hasWork: () => left >= LEAST_WORK,
    spend: (candidates) => {
      left -= 1 + candidates / CANDIDATES_LOOKED_AT;
    },
    of: (training, places) => {
      const { stepMs, work } = pricesOf(
        training,
        places,
        Math.max(0, Math.floor(left * PART_OF_REST)),
      );
      left -= work;
      return stepMs;
    },
  };
}
