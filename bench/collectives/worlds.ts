/**
 * @file Worlds drawn at random: what each arm takes on average, and one of three families of noise.
 *
 * AUTO takes 100 ms. The best forced arm is `gain` below it, uniform from −10 to 30 %; each other one takes up to 60 % longer than that. All noise
 * multiplies and has mean 1, so the means of the arms are what was drawn. *Stalls*: log-normal jitter, rare long waits, and slower first iterations, as
 * the emulator has. *Drift*: all arms are slower and faster together (first-order autoregression of the logarithm), with jitter of their own.
 * *Neighbour*: another job comes and goes and slows all arms while it is there; jitter is skewed (gamma) and AUTO's is wider. The third was never
 * used to tune anything. Cost: a draw for each iteration of each arm that is asked for.
 */

import { randomFrom, type Random } from "../../lib/random.ts";
import type { Draws } from "../../simulator/collectives/draws.ts";
import { EMULATED_ARMS, type EmulatedArm } from "../../simulator/collectives/emulated-arms.ts";

export const FAMILIES = ["stalls", "drift", "neighbour"] as const;
export type Family = (typeof FAMILIES)[number];

export interface World {
  readonly family: Family;
  /** Of the best forced arm: the share of AUTO's mean that it saves; negative where AUTO is the best. */
  readonly gain: number;
  readonly best: EmulatedArm;
  readonly meanMs: (arm: EmulatedArm) => number;
  readonly draws: Draws;
}

const AUTO_MS = 100;
const GAIN = { least: -0.1, most: 0.3 };
const MOST_BEHIND = 0.6;

/** A world by its number: the families take turns. */
export function worldOf(seed: number, index: number, iterations: number): World {
  const random = randomFrom(seed, `world ${String(index)}`);
  const family = FAMILIES[index % FAMILIES.length] ?? "stalls";
  const forced = EMULATED_ARMS.filter((arm) => arm !== "auto");
  const gain = between(random, GAIN.least, GAIN.most);
  const first = forced[random.below(forced.length)] ?? "tree/simple";
  const means = new Map<EmulatedArm, number>([["auto", AUTO_MS]]);
  for (const arm of forced) {
    const behind = between(random, 0, MOST_BEHIND);
    means.set(arm, AUTO_MS * (1 - gain) * (arm === first ? 1 : 1 + behind));
  }
  const meanMs = (arm: EmulatedArm): number => means.get(arm) ?? NaN;
  const noiseOf = NOISES[family](random.stream("noise"), iterations);
  const known = new Map<EmulatedArm, Float64Array>();
  const msOf = (arm: EmulatedArm): Float64Array => {
    const before = known.get(arm);
    if (before !== undefined) return before;
    const ms = noiseOf(arm).map((factor) => factor * meanMs(arm));
    known.set(arm, ms);
    return ms;
  };
  return {
    family,
    gain,
    best: gain > 0 ? first : "auto",
    meanMs,
    draws: { iterations, ms: (arm, at) => msOf(arm)[at] ?? NaN, medianMs: meanMs },
  };
}

/** By what each iteration of an arm is multiplied. */
type Noise = (arm: EmulatedArm) => Float64Array;
type NoiseFamily = (random: Random, iterations: number) => Noise;

const NOISES: Readonly<Record<Family, NoiseFamily>> = { stalls, drift, neighbour };

function stalls(random: Random, iterations: number): Noise {
  const sigma = between(random, 0.02, 0.1);
  const chance = between(random, 0, 0.06);
  const tailIndex = 1.6;
  const [least, most] = [1, 20];
  // The mean of a Pareto time from `least` on that is cut at `most`.
  const wait = (tailIndex * least - least * (least / most) ** (tailIndex - 1)) / (tailIndex - 1);
  const mean = Math.exp(sigma ** 2 / 2) + chance * wait;
  return (arm) => {
    const own = random.stream(arm);
    return Float64Array.from({ length: iterations }, (_, at) => {
      const jitter = Math.exp(sigma * own.normal());
      const isStalled = own.unit() < chance;
      const long = Math.min(most, least * (1 - own.unit()) ** (-1 / tailIndex));
      return ((jitter + (isStalled ? long : 0)) / mean) * (1 + 0.118 * Math.exp(-at / 20));
    });
  };
}

function drift(random: Random, iterations: number): Noise {
  const sigma = between(random, 0.02, 0.08);
  const [memory, reach] = [0.95, between(random, 0.02, 0.06)];
  let level = reach * random.normal();
  const common = Float64Array.from({ length: iterations }, () => {
    level = memory * level + reach * Math.sqrt(1 - memory ** 2) * random.normal();
    return level;
  });
  const logMean = (sigma ** 2 + reach ** 2) / 2;
  return (arm) => {
    const own = random.stream(arm);
    return common.map((logFactor) => Math.exp(logFactor + sigma * own.normal() - logMean));
  };
}

function neighbour(random: Random, iterations: number): Noise {
  const slower = between(random, 1.05, 1.3);
  const [quietFor, busyFor] = [60, 20];
  const share = busyFor / (quietFor + busyFor);
  let isBusy = random.unit() < share;
  const common = Float64Array.from({ length: iterations }, () => {
    if (random.unit() < 1 / (isBusy ? busyFor : quietFor)) isBusy = !isBusy;
    return (isBusy ? slower : 1) / (1 + share * (slower - 1));
  });
  const spread = between(random, 0.02, 0.08);
  return (arm) => {
    const own = random.stream(arm);
    const reach = arm === "auto" ? 1.5 * spread : spread;
    return common.map((factor) => factor * (1 + reach * skewed(own)));
  };
}

/** Mean 0, variance 1, never below −√3: three exponentials. */
function skewed(random: Random): number {
  const sum = random.exponential(1) + random.exponential(1) + random.exponential(1);
  return (sum - 3) / Math.sqrt(3);
}

const between = (random: Random, least: number, most: number): number =>
  least + (most - least) * random.unit();
