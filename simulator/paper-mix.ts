/**
 * @file Draws workloads of the paper's kind: inference, interactive and training jobs of 1 to 1,000 GPUs and 1 ms to 1,000,000 ms.
 *
 * Sizes come from a table of weights, durations are lognormal, cut at both ends. The classes share the offered GPU-seconds as the
 * parameters say, which with the mean size of a job gives how many jobs of each class there are; the time over which they arrive
 * is then set so that the jobs that were really drawn offer exactly the load that is asked for. Arrivals are Poisson with a rate
 * that may change: by bursts (slots of time, each a burst or not) and by the time of day.
 * Sizes and durations are drawn by strata (one from each of n equal parts of the probability, in random order), so that a few huge
 * jobs more or less do not make two seeds two different workloads. Every concern draws from a stream of its own.
 * Cost: O(n log n).
 */

import type { TenantRule } from "../domain/fleet/fleet.ts";
import { tenantId } from "../domain/values/ids.ts";
import { DEFAULT_PREEMPTION, JOB_CLASSES, type JobClass } from "../domain/job/job.ts";
import { ms } from "../domain/values/units.ts";
import { randomFrom, type Random } from "../lib/random.ts";
import type { Workload, WorkloadJob } from "./workload.ts";

export interface ClassMix {
  /** Of all GPU-seconds that are offered. */
  readonly loadShare: number;
  readonly sizes: readonly (readonly [gpus: number, weight: number])[];
  readonly medianMs: number;
  /** Of the logarithm of the duration. */
  readonly sigma: number;
  readonly leastMs: number;
  readonly mostMs: number;
  /** Larger gangs may accept this part of their size, rounded up to whole hosts; 1: all or nothing. */
  readonly minShare: number;
  /** Gangs that accept less also shrink while they run, and grow back. */
  readonly isElastic?: true;
  /** They are not evicted for this long after a start; the class's default when absent. */
  readonly protectedMs?: number;
  /** Share of the time in which jobs arrive `burstFactor` times as often as otherwise. */
  readonly burstShare: number;
  readonly burstFactor: number;
  readonly burstSlotMs: number;
}

export interface PaperMix {
  /** GPU-seconds that arrive ÷ GPU-seconds there are. */
  readonly offeredLoad: number;
  readonly gpus: number;
  /** About so many, all classes together. */
  readonly jobs: number;
  readonly classes: Readonly<Record<JobClass, ClassMix>>;
  /** Each next tenant submits this part of what the one before does. */
  readonly tenants: number;
  readonly tenantDecay: number;
  /** 0: the same all day; 1: nothing at night. */
  readonly diurnal: number;
  readonly dayMs: number;
  /** Users' time limits are at least the duration and at most this many times the duration. */
  readonly mostOverestimate: number;
  /** Gangs of more GPUs may span sites. */
  readonly spanningFromGpus: number;
}

export const DAY_MS = 24 * 3_600_000;

export function drawPaperMix(mix: PaperMix, seed: number): Workload {
  const random = randomFrom(seed, "paper-mix");
  const drawn = countsOf(mix).map(({ jobClass, count }) => {
    const of = random.stream(jobClass);
    const sizes = of.stream("sizes");
    const durations = of.stream("durations");
    const tenants = of.stream("tenants");
    const estimates = of.stream("estimates");
    const rule = mix.classes[jobClass];
    const sizeAt = strata(count, sizes);
    const durationAt = strata(count, durations);
    return Array.from({ length: count }, (_, at): Drawn => {
      const durationMs = cut(rule, normalQuantile(durationAt[at] ?? 0.5));
      return {
        jobClass,
        gpus: sizeOf(rule, sizeAt[at] ?? 0.5),
        durationMs,
        tenant: tenantOf(mix, tenants),
        estimateMs: durationMs * (1 + estimates.unit() * (mix.mostOverestimate - 1)),
      };
    });
  });
  const gpuMs = drawn.flat().reduce((sum, { gpus, durationMs }) => sum + gpus * durationMs, 0);
  const spanMs = gpuMs / (mix.gpus * mix.offeredLoad);
  const jobs = drawn
    .flatMap((ofClass) => {
      const jobClass = ofClass[0]?.jobClass;
      if (jobClass === undefined) return [];
      const arrivals = random.stream(`${jobClass}/arrivals`);
      const times = arrivalTimes(ofClass.length, spanMs, {
        mix,
        rule: mix.classes[jobClass],
        arrivals,
      });
      return ofClass.map((job, at) => jobOf(job, times[at] ?? 0, mix));
    })
    .sort((a, b) => a.submittedAtMs - b.submittedAtMs)
    .map((job, at) => ({ ...job, id: `j${String(at)}` }));
  return { name: "paper-mix", jobs, tenants: tenantRules(mix), notes: notesOf(mix, spanMs) };
}

interface Drawn {
  readonly jobClass: JobClass;
  readonly gpus: number;
  readonly durationMs: number;
  readonly tenant: string;
  readonly estimateMs: number;
}

function countsOf(
  mix: PaperMix,
): readonly { readonly jobClass: JobClass; readonly count: number }[] {
  const rates = JOB_CLASSES.map((jobClass) => {
    const rule = mix.classes[jobClass];
    return { jobClass, rate: rule.loadShare / (meanSize(rule) * meanMs(rule)) };
  });
  const all = rates.reduce((sum, { rate }) => sum + rate, 0);
  return rates.map(({ jobClass, rate }) => ({
    jobClass,
    count: rate > 0 ? Math.max(1, Math.round((mix.jobs * rate) / all)) : 0,
  }));
}

function meanSize({ sizes }: ClassMix): number {
  const weights = sizes.reduce((sum, [, weight]) => sum + weight, 0);
  return sizes.reduce((sum, [gpus, weight]) => sum + gpus * weight, 0) / weights;
}

/** Of the cut lognormal, by the middle of a thousand equal parts of its probability. */
function meanMs(rule: ClassMix): number {
  const parts = 1_000;
  let sum = 0;
  for (let part = 0; part < parts; part += 1)
    sum += cut(rule, normalQuantile((part + 0.5) / parts));
  return sum / parts;
}

const cut = ({ medianMs, sigma, leastMs, mostMs }: ClassMix, deviation: number): number =>
  Math.min(mostMs, Math.max(leastMs, medianMs * Math.exp(sigma * deviation)));

/** One number from each of `count` equal parts of 0 to 1, in random order. */
function strata(count: number, random: Random): Float64Array {
  const places = new Float64Array(count);
  for (let at = 0; at < count; at += 1) {
    const other = random.below(at + 1);
    places[at] = places[other] ?? 0;
    places[other] = (at + random.unit()) / count;
  }
  return places;
}

function sizeOf({ sizes }: ClassMix, share: number): number {
  let left = share * sizes.reduce((sum, [, weight]) => sum + weight, 0);
  for (const [gpus, weight] of sizes) {
    if (left < weight) return gpus;
    left -= weight;
  }
  return sizes.at(-1)?.[0] ?? 1;
}

function tenantOf({ tenants, tenantDecay }: PaperMix, random: Random): string {
  const parts = Array.from({ length: tenants }, (_, at) => tenantDecay ** at);
  let left = random.unit() * parts.reduce((sum, part) => sum + part, 0);
  for (const [at, part] of parts.entries()) {
    if (left < part) return tenantName(at);
    left -= part;
  }
  return tenantName(tenants - 1);
}

const tenantName = (at: number): string => `tenant-${String(at + 1).padStart(2, "0")}`;

/** Equal weights, no quota: what the paper says of tenants is only that none starves. */
const tenantRules = ({ tenants }: PaperMix): readonly TenantRule[] =>
  Array.from({ length: tenants }, (_, at) => ({
    id: tenantId(tenantName(at)),
    weight: 1,
    quota: {},
    borrowingLimit: 0,
  }));

interface ArrivalContext {
  readonly mix: PaperMix;
  readonly rule: ClassMix;
  readonly arrivals: Random;
}

/** In order. Given how many there are, arrivals of a Poisson process are that many independent draws from its rate. */
function arrivalTimes(
  count: number,
  spanMs: number,
  { mix: { diurnal, dayMs }, rule, arrivals }: ArrivalContext,
): Float64Array {
  const slots = Math.max(1, Math.ceil(spanMs / rule.burstSlotMs));
  const slotMs = spanMs / slots;
  const bursts = arrivals.stream("bursts");
  const until = new Float64Array(slots);
  let sum = 0;
  for (let slot = 0; slot < slots; slot += 1) {
    const isBurst = bursts.unit() < rule.burstShare;
    const ofDay = 1 - diurnal * Math.cos((2 * Math.PI * (slot + 0.5) * slotMs) / dayMs);
    sum += (isBurst ? rule.burstFactor : 1) * ofDay;
    until[slot] = sum;
  }
  const times = arrivals.stream("times");
  const drawn = new Float64Array(count);
  for (let at = 0; at < count; at += 1) {
    const wanted = times.unit() * sum;
    let low = 0;
    let high = slots - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((until[middle] ?? Infinity) > wanted) high = middle;
      else low = middle + 1;
    }
    const before = low === 0 ? 0 : (until[low - 1] ?? 0);
    const share = (wanted - before) / ((until[low] ?? 1) - before);
    drawn[at] = (low + share) * slotMs;
  }
  return drawn.sort();
}

function jobOf(drawn: Drawn, submittedAtMs: number, mix: PaperMix): WorkloadJob {
  const { jobClass, gpus, durationMs, tenant, estimateMs } = drawn;
  const { minShare, isElastic, protectedMs } = mix.classes[jobClass];
  const minGpus = gpus <= 8 ? gpus : Math.min(gpus, Math.ceil((gpus * minShare) / 8) * 8);
  const mayShrink = isElastic === true && minGpus < gpus;
  const rule = DEFAULT_PREEMPTION[jobClass];
  return {
    id: "",
    submittedAtMs,
    durationMs,
    gpus,
    ...(minGpus < gpus && { minGpus }),
    ...(mayShrink && { mayGrow: true }),
    ...((mayShrink || protectedMs !== undefined) && {
      preemption: { ...rule, mayShrink, minRuntimeMs: ms(protectedMs ?? rule.minRuntimeMs) },
    }),
    class: jobClass,
    tenant,
    estimateMs,
    constraints:
      gpus > mix.spanningFromGpus ? { maxClusters: 3 } : { isSameFabric: gpus > 8, maxClusters: 1 },
  };
}

function notesOf(mix: PaperMix, spanMs: number): readonly string[] {
  const shares = JOB_CLASSES.map((name) => `${name} ${String(mix.classes[name].loadShare)}`);
  return [
    `drawn: offered load ${String(mix.offeredLoad)} of ${String(mix.gpus)} GPUs over ${(spanMs / 1_000).toFixed(0)} s`,
    `share of the GPU-seconds: ${shares.join(", ")}`,
  ];
}

/** Acklam's rational approximation of the normal distribution's inverse; relative error below 1.2e-9. */
function normalQuantile(p: number): number {
  const tail = 0.02425;
  if (p < tail) return tailQuantile(Math.sqrt(-2 * Math.log(p)));
  if (p > 1 - tail) return -tailQuantile(Math.sqrt(-2 * Math.log(1 - p)));
  const q = p - 0.5;
  const r = q * q;
  const top =
    (((((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r +
      138.357751867269) *
      r -
      30.66479806614716) *
      r +
      2.506628277459239) *
    q;
  const bottom =
    ((((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r +
      66.80131188771972) *
      r -
      13.28068155288572) *
      r +
    1;
  return top / bottom;
}

function tailQuantile(q: number): number {
  const top =
    ((((-0.007784894002430293 * q - 0.3223964580411365) * q - 2.400758277161838) * q -
      2.549732539343734) *
      q +
      4.374664141464968) *
      q +
    2.938163982698783;
  const bottom =
    (((0.007784695709041462 * q + 0.3224671290700398) * q + 2.445134137142996) * q +
      3.754408661907416) *
      q +
    1;
  return top / bottom;
}
