/**
 * @file How long a gang that waits is expected to run at a size and place that it has not got yet.
 *
 * Users ask for about twice the time that they need, so half of the time limit is believed, at the gang's full size and best spread; with less
 * progress it takes longer in proportion.
 */

import type { GangRequest } from "../domain/lease.ts";
import { bestThroughput } from "./placement/spread.ts";
import { GUESS_MS } from "./run-times.ts";

const BELIEVED = 0.5;

/** `worth`: GPUs at peak that would make the same progress (productive-size.ts). */
export function expectedRunMs({ gang, timeLimitMs }: GangRequest, worth: number): number {
  const fullMs = timeLimitMs === undefined ? GUESS_MS : timeLimitMs * BELIEVED;
  return (fullMs * gang.gpus * bestThroughput(gang.gpus)) / worth;
}
