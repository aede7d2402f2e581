/**
 * @file The messages that a gang sends: which collective, and how large. Bandwidth depends on both.
 *
 * α–β: a collective of S bytes takes α + S / β, so the time per byte of bus bandwidth, S ÷ GB/s in ns, is a straight line in S. Between two
 * measured sizes the bandwidth of a set follows that line. Beyond the first and the last it goes on, within what is possible: a larger message
 * never has less bandwidth, and never takes less time. Sizes are bytes as nccl-tests counts them, bandwidths GB/s of bus bandwidth.
 */

import { MESSAGE_SIZE } from "../values/dimensions.ts";
import { quantityText } from "../values/quantity.ts";

/** As nccl-tests names its programs, without `_perf`. */
export const COLLECTIVES = [
  "all_reduce",
  "all_gather",
  "reduce_scatter",
  "alltoall",
  "sendrecv",
] as const;
export type Collective = (typeof COLLECTIVES)[number];

export interface MessageProfile {
  readonly collective: Collective;
  readonly bytes: number;
}

/** What a measurement without a profile is of: BandPilot's. */
export const USUAL_MESSAGES: MessageProfile = Object.freeze({
  collective: "all_reduce",
  bytes: 16 * 2 ** 20,
});

export const areSameMessages = (a: MessageProfile, b: MessageProfile): boolean =>
  a.bytes === b.bytes && a.collective === b.collective;

/** With the nearest power of two as size, so that what jobs report falls into few kinds. */
export const roundMessages = ({ collective, bytes }: MessageProfile): MessageProfile => ({
  collective,
  bytes: 2 ** Math.round(Math.log2(bytes)),
});

/** `2 GiB`, and of another collective than all-reduce `2 GiB alltoall`. */
export function messagesText({ collective, bytes }: MessageProfile): string {
  const size = quantityText(BigInt(bytes), MESSAGE_SIZE);
  return collective === USUAL_MESSAGES.collective ? size : `${size} ${collective}`;
}

/** The bandwidth of one set at one size. */
export interface SizedBandwidth {
  readonly bytes: number;
  readonly gbs: number;
}

/** GB/s at `bytes`; `points` ascend by size, one at least. */
export function bandwidthAt(points: readonly SizedBandwidth[], bytes: number): number {
  const above = points.findIndex((point) => point.bytes >= bytes);
  const to = above < 0 ? points.length - 1 : Math.max(above, 1);
  const [a, b] = [points[to - 1], points[to]];
  if (a === undefined || b === undefined) return (points[0] ?? b)?.gbs ?? NaN;
  const [aNs, bNs] = [a.bytes / a.gbs, b.bytes / b.gbs];
  const slope = (bNs - aNs) / (b.bytes - a.bytes);
  if (bytes > b.bytes) return bytes / (bNs + within(slope, bNs / b.bytes) * (bytes - b.bytes));
  if (bytes < a.bytes) return bytes / (aNs - within(slope, aNs / a.bytes) * (a.bytes - bytes));
  return bytes / (aNs + slope * (bytes - a.bytes));
}

/** From no more time to no more bandwidth. */
const within = (slope: number, most: number): number => Math.min(Math.max(slope, 0), most);
