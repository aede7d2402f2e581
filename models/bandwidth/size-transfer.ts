/**
 * @file From the bandwidth of a set at one size of messages to that at another, learned from a few sets that were measured at both sizes.
 *
 * What is predicted is the logarithm of the ratio of the two bandwidths. Before anything is measured α–β gives it: of the time that a message takes,
 * a fixed part does not grow with its size. A Gaussian process adds what the measurements say beside: a constant, slopes in the
 * logarithms of the hosts, of all GPUs, of those of the host with fewest and most and of the bandwidth itself, whether the first size's own exceptions
 * hold at the second, something smooth, and what is particular to a set. Sets inside a host and sets over several have a process each.
 * Two dozen sets fix these; the order of everything else comes from the size that is well known.
 */

import { kriging } from "../../lib/kriging.ts";

/** What a transfer sees of a set. */
export interface SizePoint {
  readonly hosts: number;
  readonly gpus: number;
  /** Of the host that has fewest, and of the one that has most. */
  readonly least: number;
  readonly most: number;
  /** GB/s at the first size, not limited by the slowest member host. */
  readonly gbs: number;
  /** What was measured at the first size beyond what sets like it have, as a logarithm. */
  readonly exception: number;
  /** Sets of one name are one for the network. */
  readonly name: string;
}

export interface SizedPoint {
  readonly point: SizePoint;
  /** Measured at the second size. */
  readonly gbs: number;
}

/** Time that does not grow with the message, in ns of S ÷ bus bandwidth: over hosts, and inside one. */
const FIXED_NS = Object.freeze({ across: 65_000, inside: 36_000 });
/** As a share of all the time, at most. */
const MOST_FIXED = 0.6;
/** Relative error of one measurement, squared. */
const NOISE = 0.02 ** 2;
/** Standard deviations of what a ratio may have beside α–β, as logarithms; slopes are for a factor of two. */
const ACROSS = Object.freeze({
  constant: 0.3,
  twoHosts: 0.3,
  hosts: 0.15,
  gpus: 0.15,
  least: 0.5,
  most: 0.1,
  gbs: 0.5,
  exception: 0.3,
  smooth: 0.12,
  particular: 0.08,
});
const INSIDE = Object.freeze({
  constant: 0.3,
  gpus: 0.1,
  gbs: 0.2,
  smooth: 0.05,
  particular: 0.05,
});
/** Distance in factors of two at which two sets are hardly alike. */
const REACH = 1;

export interface SizeStep {
  readonly fromBytes: number;
  readonly toBytes: number;
  /** Sets inside one host, or sets over several: the measured ones and those that are asked about are of one kind. */
  readonly kind: "inside" | "across";
}

/** What the bandwidth at the first size is to be multiplied by. */
export type SizeRatio = (point: SizePoint) => number;

export function sizeRatio(measured: readonly SizedPoint[], step: SizeStep): SizeRatio {
  const observations = measured.map(({ point, gbs }) => ({
    point: vectorOf(point),
    value: Math.log(gbs / point.gbs / usualRatio(point.gbs, step)),
  }));
  const kernel = step.kind === "inside" ? insideKernel : acrossKernel;
  const beside = kriging(observations, { kernel, noise: NOISE });
  return (point) => usualRatio(point.gbs, step) * Math.exp(beside(vectorOf(point)));
}

/** α–β with a fixed part that is the same for all sets. */
export function usualRatio(gbs: number, { fromBytes, toBytes, kind }: SizeStep): number {
  const fromNs = fromBytes / gbs;
  const fixedNs = Math.min(FIXED_NS[kind], MOST_FIXED * fromNs);
  const toNs = fixedNs + ((fromNs - fixedNs) * toBytes) / fromBytes;
  return toBytes / toNs / gbs;
}

/** What is seen of a set in factors of two beside the usual, and on which side of two hosts it lies. */
interface Vector extends SizePoint {
  readonly twoHosts: number;
}

/** Usual values count as 0, so that slopes turn about them. */
const vectorOf = ({ hosts, gpus, least, most, gbs, exception, name }: SizePoint): Vector => ({
  twoHosts: hosts === 2 ? 0.5 : -0.5,
  hosts: Math.log2(hosts / 3),
  gpus: Math.log2(gpus / 12),
  least: Math.log2(least / 3),
  most: Math.log2(most / 6),
  gbs: Math.log2(gbs / 100),
  exception: exception / Math.LN2,
  name,
});

function acrossKernel(a: Vector, b: Vector): number {
  const slopes =
    ACROSS.constant ** 2 +
    ACROSS.twoHosts ** 2 * a.twoHosts * b.twoHosts +
    ACROSS.hosts ** 2 * a.hosts * b.hosts +
    ACROSS.gpus ** 2 * a.gpus * b.gpus +
    ACROSS.least ** 2 * a.least * b.least +
    ACROSS.most ** 2 * a.most * b.most +
    ACROSS.gbs ** 2 * a.gbs * b.gbs +
    ACROSS.exception ** 2 * a.exception * b.exception;
  const apart =
    (a.hosts - b.hosts) ** 2 +
    (a.gpus - b.gpus) ** 2 +
    (a.least - b.least) ** 2 +
    (a.most - b.most) ** 2;
  const smooth = ACROSS.smooth ** 2 * Math.exp(-apart / (2 * REACH ** 2));
  return slopes + smooth + (a.name === b.name ? ACROSS.particular ** 2 : 0);
}

function insideKernel(a: Vector, b: Vector): number {
  const slopes =
    INSIDE.constant ** 2 + INSIDE.gpus ** 2 * a.gpus * b.gpus + INSIDE.gbs ** 2 * a.gbs * b.gbs;
  const smooth = INSIDE.smooth ** 2 * Math.exp(-((a.gpus - b.gpus) ** 2) / (2 * REACH ** 2));
  return slopes + smooth + (a.name === b.name ? INSIDE.particular ** 2 : 0);
}
