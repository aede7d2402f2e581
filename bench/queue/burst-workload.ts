/**
 * @file The workload of `bench queue --only bursts`: inference that is a load, on a fleet that training saturates. Frozen before tuning.
 *
 * The paper's 1,798 GPUs. Inference holds a tenth, a fifth or three tenths of them on average; its arrivals are Poisson with a rate that
 * switches between *quiet* (270 s on average) and *burst* (30 s, three times the rate), both exponential. Gangs have 1, 2, 4 or 8 GPUs,
 * run times are lognormal with a median of 30 s and σ 1. Training takes whatever inference leaves: more of it than fits waits all the time,
 * in preemptible gangs of 1 to 16 GPUs that run for an hour on average, without time limits. Both classes belong to the same four tenants.
 * What is counted arrives in two hours, after `WARM_UP_MS` in which the fleet fills; a grant made later still counts.
 */

import { DEFAULT_PREEMPTION } from "../../domain/job/job.ts";
import { tenantId } from "../../domain/values/ids.ts";
import { randomFrom, type Random } from "../../lib/random.ts";
import { PAPER_SITES } from "../../simulator/paper-fleet.ts";
import type { Workload, WorkloadJob } from "../../simulator/workload.ts";

export const FLEET_GPUS = PAPER_SITES.reduce((sum, gpus) => sum + gpus, 0);

/** Of the fleet: what inference holds on average, and the part that may be kept free for it, on average. */
export const BURST_CASES = Object.freeze([
  { inference: 0.1, kept: 0.03 },
  { inference: 0.2, kept: 0.04 },
  { inference: 0.3, kept: 0.05 },
] as const);
export type BurstCase = (typeof BURST_CASES)[number];

const WARM_UP_MS = 15 * 60_000;
const COUNTED_MS = 2 * 3_600_000;
export const LAST_ARRIVAL_MS = WARM_UP_MS + COUNTED_MS;
/** Frozen; policies are tuned on others. */
export const BURST_SEEDS: readonly number[] = Object.freeze([101, 102, 103, 104, 105]);

const QUIET_MS = 270_000;
const BURST_MS = 30_000;
const BURST_FACTOR = 3;
const INFERENCE_SIZES = [
  [1, 0.7],
  [2, 0.15],
  [4, 0.1],
  [8, 0.05],
] as const;
const MEDIAN_MS = 30_000;
const SIGMA = 1;

const TRAINING_SIZES = [
  [1, 0.2],
  [2, 0.15],
  [4, 0.15],
  [8, 0.4],
  [16, 0.1],
] as const;
const TRAINING_MEAN_MS = 3_600_000;
/** Training that is there at the start, and that arrives until the end, each in GPU time that the fleet has in all. */
const TRAINING_AT_START = 1.3;
const TRAINING_LATER = 0.7;
const TENANTS = ["ada", "bob", "eve", "kim"] as const;

type Sizes = readonly (readonly [gpus: number, share: number])[];

const meanOf = (sizes: Sizes): number =>
  sizes.reduce((sum, [gpus, share]) => sum + gpus * share, 0);

/** Inference jobs that arrive in a second of a quiet time. */
export function quietRate({ inference }: Pick<BurstCase, "inference">): number {
  const meanRunS = (MEDIAN_MS / 1_000) * Math.exp(SIGMA ** 2 / 2);
  const meanRate = (inference * FLEET_GPUS) / (meanOf(INFERENCE_SIZES) * meanRunS);
  const burstShare = BURST_MS / (BURST_MS + QUIET_MS);
  return meanRate / (1 + (BURST_FACTOR - 1) * burstShare);
}

/** `lastMs`: arrivals end there; shorter than the frozen time only for quick looks. */
export function burstWorkload(its: BurstCase, seed: number, lastMs = LAST_ARRIVAL_MS): Workload {
  const random = randomFrom(seed, "bursts");
  const jobs = [
    ...inferenceJobs(its, random.stream("inference"), lastMs),
    ...trainingJobs(random.stream("training"), lastMs),
  ].sort((a, b) => a.submittedAtMs - b.submittedAtMs || (a.id < b.id ? -1 : 1));
  return {
    name: `bursts ${String(100 * its.inference)} %`,
    jobs,
    tenants: TENANTS.map((id) => ({ id: tenantId(id), weight: 1, quota: {}, borrowingLimit: 0 })),
    notes: [],
  };
}

function inferenceJobs(its: BurstCase, random: Random, lastMs: number): readonly WorkloadJob[] {
  const [arrivals, sizes, times] = ["arrivals", "sizes", "times"].map(random.stream);
  const tenants = random.stream("tenants");
  if (arrivals === undefined || sizes === undefined || times === undefined) return [];
  const gapMs = 1_000 / quietRate(its);
  const jobs: WorkloadJob[] = [];
  let isBurst = false;
  let untilMs = arrivals.exponential(QUIET_MS);
  for (let atMs = 0; ;) {
    const nextMs = atMs + arrivals.exponential(isBurst ? gapMs / BURST_FACTOR : gapMs);
    if (Math.min(nextMs, untilMs) >= lastMs) return jobs;
    // A Poisson stream has no memory: the gap is drawn anew at the rate that begins.
    if (nextMs >= untilMs) {
      atMs = untilMs;
      isBurst = !isBurst;
      untilMs += arrivals.exponential(isBurst ? BURST_MS : QUIET_MS);
      continue;
    }
    atMs = nextMs;
    jobs.push({
      id: `inference-${String(jobs.length)}`,
      submittedAtMs: Math.round(atMs),
      durationMs: Math.max(1, Math.round(MEDIAN_MS * Math.exp(SIGMA * times.normal()))),
      gpus: sizeOf(INFERENCE_SIZES, sizes),
      class: "inference",
      tenant: tenantOf(tenants),
    });
  }
}

function trainingJobs(random: Random, lastMs: number): readonly WorkloadJob[] {
  const meanMs = meanOf(TRAINING_SIZES) * TRAINING_MEAN_MS;
  const fleetMs = FLEET_GPUS * Math.max(lastMs, TRAINING_MEAN_MS);
  const first = Math.ceil((TRAINING_AT_START * fleetMs) / meanMs);
  const later = Math.ceil((TRAINING_LATER * fleetMs) / meanMs);
  return Array.from({ length: first + later }, (_, at) => ({
    id: `training-${String(at)}`,
    submittedAtMs: at < first ? 0 : Math.floor(random.unit() * lastMs),
    durationMs: Math.max(1, Math.round(random.exponential(TRAINING_MEAN_MS))),
    gpus: sizeOf(TRAINING_SIZES, random),
    class: "training" as const,
    tenant: tenantOf(random),
    preemption: DEFAULT_PREEMPTION.training,
  }));
}

function sizeOf(sizes: Sizes, random: Pick<Random, "unit">): number {
  let left = random.unit();
  for (const [gpus, share] of sizes) {
    left -= share;
    if (left < 0) return gpus;
  }
  return sizes.at(-1)?.[0] ?? 1;
}

const tenantOf = (random: Pick<Random, "below">): string =>
  TENANTS[random.below(TENANTS.length)] ?? TENANTS[0];
