/**
 * @file The noise of an iteration's time: jitter, stalls, and settling.
 *
 * Jitter is log-normal, each arm's own; AUTO's is wider on some clusters, because its cost model goes to and fro between configurations (§5.2). Stalls are what
 * makes the tail heavy: with some probability an iteration waits for retransmissions, a Pareto time from TCP's least timeout (200 ms) on. Settling: the first
 * iterations are slower, all arms alike, because windows, clocks and caches warm up; it is what §5.2 sees when it leaves out the first 40
 * iterations and finds AUTO itself 15 % tighter. Draws: always three numbers an iteration, so that streams stay in step.
 */

import type { Random } from "../../lib/random.ts";
import type { EmulatedArm } from "./emulated-arms.ts";

export interface NoiseShape {
  /** Standard deviation of the logarithm. */
  readonly jitter: PerArm;
  readonly stall: {
    /** How many one GiB of messages meets, on average: every byte may be the one that is lost. */
    readonly perGiB: PerArm;
    readonly leastMs: number;
    readonly mostMs: number;
    /** The smaller, the heavier the tail. */
    readonly tailIndex: number;
  };
  /** Iteration i takes 1 + excess · e^(−i / iterations) times as long. */
  readonly settling: { readonly excess: number; readonly iterations: number };
}

/** AUTO, and all that is forced. */
interface PerArm {
  readonly auto: number;
  readonly forced: number;
}

interface Moment {
  readonly arm: EmulatedArm;
  /** Of the noisy time once it has settled. */
  readonly medianMs: number;
  readonly bytes: number;
  /** Iterations since the job started or was moved. */
  readonly iteration: number;
  /** 1 is the fitted noise. */
  readonly scale: number;
}

export function noisyMs(
  { jitter, stall, settling }: NoiseShape,
  { arm, medianMs, bytes, iteration, scale }: Moment,
  random: Random,
): number {
  const role = arm === "auto" ? "auto" : "forced";
  const probability = 1 - Math.exp((-stall.perGiB[role] * scale * bytes) / GIB);
  const wobble = random.normal() - shiftOf(probability);
  const isStalled = random.unit() < probability;
  const longMs = stall.leastMs * (1 - random.unit()) ** (-1 / stall.tailIndex);
  const stallMs = isStalled ? Math.min(longMs, stall.mostMs) : 0;
  const settled = 1 + settling.excess * Math.exp(-iteration / settling.iterations);
  return medianMs * Math.exp(jitter[role] * scale * wobble) * settled + stallMs;
}

/**
 * Stalls push the median up to where the normal distribution is 0.5 / (1 − p); taken off here, so that the median is the given one. To first order,
 * which is exact to 0.001 for p up to 0.3.
 */
const shiftOf = (probability: number): number =>
  Math.sqrt(2 * Math.PI) * (0.5 / (1 - probability) - 0.5);

const GIB = 2 ** 30;
