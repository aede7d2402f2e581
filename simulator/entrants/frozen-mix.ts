/**
 * @file The workload on which all policies are compared: the generator's parameters, fitted to the rivals' six figures and then frozen.
 *
 * `calibrate.ts` repeats the fit; what of the figures does not fit, and why, stands in docs/benchmarks.md.
 */

import { DAY_MS, type ClassMix, type PaperMix } from "../paper-mix.ts";

/** Utilisation and inference p99 of the paper's three rivals: all that the fit may look at. */
export const PAPER_RIVALS = Object.freeze({
  fifo: { utilisation: 0.61, p99Ms: 45 },
  binPacking: { utilisation: 0.89, p99Ms: 340 },
  drf: { utilisation: 0.73, p99Ms: 180 },
});

export const PAPER_TAWFQ = Object.freeze({
  utilisation: 0.87,
  p99Ms: 11.3,
  trainingLost: 0.07,
  starvedTenants: 0,
  overhead: 0.003,
  /** Degradation: change of the mean queue time of training jobs, and of utilisation. */
  degradedQueueTime: -0.62,
  degradedUtilisation: 0.08,
});

/** What the fit may change. */
export interface Knobs {
  readonly offeredLoad: number;
  readonly inferenceShare: number;
  readonly inferenceMedianMs: number;
  readonly inferenceSigma: number;
  readonly burstFactor: number;
  readonly interactiveShare: number;
  readonly trainingMedianMs: number;
  /** Training gangs have 1 to 1,000 GPUs: their binary logarithms lie around this, */
  readonly sizeCentre: number;
  /** so far. */
  readonly sizeWidth: number;
}

/** The answer of `calibrate.ts` with seed 1 and 70 rounds. Frozen: any change makes earlier comparisons worthless. */
export const FITTED: Knobs = Object.freeze({
  offeredLoad: 1.04,
  inferenceShare: 0.00131,
  inferenceMedianMs: 2_000,
  inferenceSigma: 2.36,
  burstFactor: 1.53,
  interactiveShare: 0.00543,
  trainingMedianMs: 21_000,
  sizeCentre: 9.47,
  sizeWidth: 1.07,
});

const TRAINING_GANGS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000];

/**
 * What the fit leaves alone; what it sets is overwritten by `mixOf`. The rivals neither preempt nor degrade, so what training agrees to
 * was not fitted but set beforehand: half the gang is acceptable, at the start and later, and ten seconds are protected: five times
 * the cost of a checkpoint, and the minute that users have by default is longer than most of these jobs run.
 */
const BASE: Omit<PaperMix, "jobs"> = {
  offeredLoad: 0.97,
  gpus: 1_798,
  classes: {
    inference: {
      loadShare: 0.004,
      sizes: [
        [1, 50],
        [2, 25],
        [4, 15],
        [8, 10],
      ],
      medianMs: 300,
      sigma: 1.7,
      leastMs: 1,
      mostMs: 10_000,
      minShare: 1,
      burstShare: 0.1,
      burstFactor: 4,
      burstSlotMs: 2_000,
    },
    interactive: {
      loadShare: 0.03,
      sizes: [
        [1, 60],
        [2, 20],
        [4, 15],
        [8, 5],
      ],
      medianMs: 40_000,
      sigma: 1.2,
      leastMs: 1_000,
      mostMs: 1_000_000,
      minShare: 1,
      burstShare: 0,
      burstFactor: 1,
      burstSlotMs: 10_000,
    },
    training: {
      loadShare: 0.966,
      sizes: [
        [16, 40],
        [32, 24],
        [64, 14],
        [128, 8],
        [256, 3],
        [512, 0.6],
        [1_000, 0.1],
      ],
      medianMs: 60_000,
      sigma: 1.4,
      leastMs: 1_000,
      mostMs: 1_000_000,
      minShare: 0.5,
      isElastic: true,
      protectedMs: 10_000,
      burstShare: 0,
      burstFactor: 1,
      burstSlotMs: 10_000,
    },
  },
  tenants: 12,
  tenantDecay: 0.8,
  diurnal: 0,
  dayMs: DAY_MS,
  mostOverestimate: 3,
  spanningFromGpus: 512,
};

export function mixOf(knobs: Knobs): Omit<PaperMix, "jobs"> {
  const { inference, interactive, training } = BASE.classes;
  const sizes: ClassMix["sizes"] = TRAINING_GANGS.map((gpus) => {
    const away = (Math.log2(gpus) - knobs.sizeCentre) / knobs.sizeWidth;
    return [gpus, Math.exp(-(away ** 2) / 2)];
  });
  return {
    ...BASE,
    offeredLoad: knobs.offeredLoad,
    classes: {
      inference: {
        ...inference,
        loadShare: knobs.inferenceShare,
        medianMs: knobs.inferenceMedianMs,
        sigma: knobs.inferenceSigma,
        burstFactor: knobs.burstFactor,
      },
      interactive: { ...interactive, loadShare: knobs.interactiveShare },
      training: {
        ...training,
        loadShare: 1 - knobs.inferenceShare - knobs.interactiveShare,
        medianMs: knobs.trainingMedianMs,
        sizes,
      },
    },
  };
}

export const FROZEN_MIX = mixOf(FITTED);
