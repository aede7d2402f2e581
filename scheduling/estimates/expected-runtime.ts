/**
 * @file Estimates the run time of a waiting gang at a given size and placement.
 *
 * Users ask for about twice the time that they need, so the estimate is half of the time limit at the gang's full size and best spread.
 * With less progress the run takes longer in proportion.
 */

import type { GangRequest } from "../../domain/lease/lease.ts";
import { bestThroughput } from "../placement/spread.ts";
import { GUESS_MS } from "./run-times.ts";

/** Part of the time limit that a job uses. */
const USED_SHARE = 0.5;

/** `worth`: the number of GPUs at peak speed that would make the same progress (gang-size.ts). */
export function expectedRunMs({ gang, timeLimitMs }: GangRequest, worth: number): number {
  const fullMs = timeLimitMs === undefined ? GUESS_MS : timeLimitMs * USED_SHARE;
  return (fullMs * gang.gpus * bestThroughput(gang.gpus)) / worth;
}
