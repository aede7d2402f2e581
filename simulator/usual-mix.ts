/**
 * @file The mix that is drawn when no trace is given: the paper's ranges of size and duration, on the fleet that is asked about.
 *
 * 1 ms to 1,000,000 ms and 1 to 1,000 GPUs as the paper says; how often each occurs it does not say. Sizes above half the fleet are left out,
 * so that every job can run.
 */

import { DAY_MS, type ClassMix, type PaperMix } from "./paper-mix.ts";

export interface UsualMixOptions {
  readonly gpus: number;
  readonly jobs: number;
  readonly offeredLoad: number;
}

const STEADY = { burstShare: 0.1, burstFactor: 4, burstSlotMs: 10_000, leastMs: 1 } as const;

const INFERENCE: ClassMix = {
  ...STEADY,
  loadShare: 0.1,
  sizes: [
    [1, 6],
    [2, 2],
    [4, 1],
    [8, 1],
  ],
  medianMs: 2_000,
  sigma: 1.8,
  mostMs: 600_000,
  minShare: 1,
};

const INTERACTIVE: ClassMix = {
  ...STEADY,
  loadShare: 0.1,
  sizes: [
    [1, 6],
    [2, 2],
    [4, 1],
    [8, 1],
  ],
  medianMs: 20_000,
  sigma: 1.5,
  mostMs: 1_000_000,
  minShare: 1,
};

const TRAINING: ClassMix = {
  ...STEADY,
  burstShare: 0,
  loadShare: 0.8,
  sizes: [
    [1, 30],
    [8, 30],
    [16, 16],
    [32, 10],
    [64, 6],
    [128, 3],
    [256, 1.2],
    [512, 0.4],
    [1_000, 0.1],
  ],
  medianMs: 120_000,
  sigma: 1.4,
  mostMs: 1_000_000,
  minShare: 0.5,
};

export function usualMix({ gpus, jobs, offeredLoad }: UsualMixOptions): PaperMix {
  const fitting = (mix: ClassMix): ClassMix => ({
    ...mix,
    sizes: mix.sizes.filter(([size]) => size === 1 || size <= gpus / 2),
  });
  return {
    offeredLoad,
    gpus,
    jobs,
    classes: {
      inference: fitting(INFERENCE),
      interactive: fitting(INTERACTIVE),
      training: fitting(TRAINING),
    },
    tenants: 12,
    tenantDecay: 0.8,
    diurnal: 0,
    dayMs: DAY_MS,
    mostOverestimate: 3,
    spanningFromGpus: 512,
  };
}
