/**
 * @file Draws the remaining run time of a job from the run times of past and running jobs.
 *
 * Runs of the same tenant, class and size (within a factor of two) make a survival curve: S(x) = Π (1 − ended at age / at risk at age), the
 * product-limit estimate of Kaplan and Meier. Running jobs count up to their present age, and runs older than the oldest note count from
 * the age at which they were first seen. So neither a young fleet, in which only short jobs have ended, nor a short memory makes jobs
 * look short. A draw is the age at which the curve, from the job's own age on, falls below a random number: its quantiles are the
 * conditional quantiles of the observed runs. With fewer than `MIN_RUNS` runs that lasted longer, the tenant is ignored, then the size,
 * then the class. Beyond the longest observed run, the median remaining time equals the time run so far (P(longer than x | longer than
 * e) = e / x). The time limit bounds every draw. Where no run is known, half of the probability lies evenly on the times up to the limit.
 * With `resampling` the notes are drawn with repetition, so draws differ by as much as so few runs leave open.
 * Cost: O(log runs) a draw after O(runs · log runs) to open.
 */

import type { JobClass } from "../../domain/job/job.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { Random } from "../../lib/random.ts";
import type { RunNote } from "../ledger/ledger.ts";
import { MAX_RUN_NOTES } from "../ledger/rules/run-history.ts";

/** With fewer runs a quantile says nothing. */
export const MIN_RUNS = 8;
/** Assumed median run time of the first job of a fleet. */
export const GUESS_MS = 600_000;

export interface RunKind {
  readonly class: JobClass;
  readonly gpus: number;
  readonly tenant?: TenantId;
  readonly timeLimitMs?: number;
}

export interface RunTimes {
  /** Number of notes of past runs. */
  readonly count: number;
  /** Remaining run time of a job that has run for `ranMs`; above 0. */
  readonly remainingMs: (kind: RunKind, ranMs: number, random: Random) => number;
}

interface Seen {
  /** The run's age when it was first seen, and when last. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly hasEnded: boolean;
}

interface Curve {
  /** Ages at which runs ended, ascending, with the part of all runs that is left after each. */
  readonly ages: readonly number[];
  readonly left: readonly number[];
  /** Ages at which runs were last seen, ascending. */
  readonly lasts: readonly number[];
}

export interface RunTimesOptions {
  /** Leases whose jobs run at `nowMs`; none when absent. */
  readonly running?: Iterable<Lease>;
  readonly nowMs?: number;
  /** Draws the notes anew, with repetition. */
  readonly resampling?: Random;
}

export function runTimesOf(
  notes: readonly RunNote[],
  { running = [], nowMs = 0, resampling }: RunTimesOptions = {},
): RunTimes {
  const pools = new Map<string, Seen[]>();
  const put = (kind: RunKind, seen: Seen): void => {
    for (const key of keysOf(kind)) {
      const pool = pools.get(key);
      if (pool === undefined) pools.set(key, [seen]);
      else pool.push(seen);
    }
  };
  const sinceMs = rememberedSince(notes);
  const firstAge = (jobClass: JobClass, grantedAtMs: number): number =>
    Math.max(0, (sinceMs.get(jobClass) ?? -Infinity) - grantedAtMs);
  const drawn =
    resampling === undefined
      ? notes
      : notes.map((own) => notes[resampling.below(notes.length)] ?? own);
  for (const note of drawn) {
    const toMs = note.endedAtMs - note.grantedAtMs;
    const fromMs = Math.min(toMs, firstAge(note.class, note.grantedAtMs));
    put(note, { fromMs, toMs, hasEnded: true });
  }
  for (const { class: jobClass, tenant, terms, slots, state, grantedAtMs } of running) {
    if (terms === undefined || slots !== undefined || state === "vacating") continue;
    const toMs = Math.max(0, nowMs - grantedAtMs);
    const fromMs = Math.min(toMs, firstAge(jobClass, grantedAtMs));
    put({ class: jobClass, tenant, gpus: terms.gang.gpus }, { fromMs, toMs, hasEnded: false });
  }
  const curves = new Map([...pools].map(([key, pool]) => [key, curveOf(pool)]));
  return {
    count: notes.length,
    remainingMs(kind, ranMs, random) {
      const drawnMs = drawOf(curves, kind, { ranMs, unit: random.unit() });
      const leftMs = (kind.timeLimitMs ?? Infinity) - ranMs;
      return Math.max(1, Math.min(drawnMs - ranMs, leftMs));
    },
  };
}

/** The time since which every end of a class has its note; absent where all ends have one. */
function rememberedSince(notes: readonly RunNote[]): ReadonlyMap<JobClass, number> {
  const since = new Map<JobClass, number>();
  const counts = new Map<JobClass, number>();
  for (const { class: jobClass } of notes) counts.set(jobClass, (counts.get(jobClass) ?? 0) + 1);
  for (const { class: jobClass, endedAtMs } of notes) {
    if ((counts.get(jobClass) ?? 0) < MAX_RUN_NOTES || since.has(jobClass)) continue;
    since.set(jobClass, endedAtMs);
  }
  return since;
}

function curveOf(pool: readonly Seen[]): Curve {
  const ends = pool.filter(({ hasEnded }) => hasEnded).sort((a, b) => a.toMs - b.toMs);
  const firsts = pool.map(({ fromMs }) => fromMs).sort((a, b) => a - b);
  const lasts = pool.map(({ toMs }) => toMs).sort((a, b) => a - b);
  const ages: number[] = [];
  const left: number[] = [];
  let part = 1;
  let tied = 0;
  for (const { toMs } of ends) {
    tied = ages.at(-1) === toMs ? tied + 1 : 0;
    // At risk at this age: first seen at it or before, last seen at it or later, less the runs of the same age that are counted already.
    const atRisk = firstAbove(firsts, toMs) - firstAt(lasts, toMs) - tied;
    part *= 1 - 1 / Math.max(1, atRisk);
    ages.push(toMs);
    left.push(part);
  }
  return { ages, left, lasts };
}

function drawOf(
  curves: ReadonlyMap<string, Curve>,
  kind: RunKind,
  { ranMs, unit }: { readonly ranMs: number; readonly unit: number },
): number {
  for (const key of keysOf(kind)) {
    const curve = curves.get(key);
    if (curve === undefined) continue;
    const { ages, left, lasts } = curve;
    if (lasts.length - firstAbove(lasts, ranMs) < MIN_RUNS) continue;
    const from = firstAbove(ages, ranMs);
    const whole = from === 0 ? 1 : (left[from - 1] ?? 1);
    const wanted = whole * (1 - unit);
    for (let at = from; at < ages.length; at += 1) {
      if ((left[at] ?? 0) <= wanted) return ages[at] ?? ranMs;
    }
    // The draw outlives all ended runs; its remainder says by how much.
    const rest = left.at(-1) ?? 1;
    const last = Math.max(ranMs, lasts.at(-1) ?? 0, 1);
    return (last * Math.min(whole, rest)) / Math.max(wanted, 1e-6);
  }
  return guessOf(kind, ranMs, unit);
}

/** Without any run to compare: twice the time run so far, in the median, or any time up to the limit, with half of the probability each. */
function guessOf({ timeLimitMs }: RunKind, ranMs: number, unit: number): number {
  const guess = (part: number): number =>
    ranMs > 0 ? ranMs / (1 - part) : GUESS_MS * Math.exp(4 * (part - 0.5));
  if (timeLimitMs === undefined) return guess(unit);
  return unit < 0.5 ? guess(2 * unit) : ranMs + (2 * unit - 1) * (timeLimitMs - ranMs);
}

/** Keys of the pools that a run belongs to, narrowest first. Sizes of one power of two share a key. */
function keysOf({ class: jobClass, tenant, gpus }: RunKind): readonly string[] {
  const size = `${jobClass} ${String(Math.floor(Math.log2(Math.max(1, gpus))))}`;
  const others = [size, jobClass, "any"];
  return tenant === undefined ? others : [`${size} ${tenant}`, ...others];
}

/** Index of the first value above the bound, of values in ascending order. */
function firstAbove(values: readonly number[], bound: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) > bound) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Index of the first value that is not below the bound. */
function firstAt(values: readonly number[], bound: number): number {
  let at = firstAbove(values, bound);
  while (at > 0 && values[at - 1] === bound) at -= 1;
  return at;
}
