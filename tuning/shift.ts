/**
 * @file Detects a shift: the arm in use is no longer the one that it was chosen to be.
 *
 * *Moved*: the last `recent` iterations of a stretch with one arm differ from the `reference` ones before by `leastChange` of the median, and a
 * Mann–Whitney test finds the difference in one direction with p < `p`. Both ignore single stalls, however long. A move says that something changed,
 * not that another arm is better now: most often all arms are slower together. So the others are probed then, and once in `probeAfter` iterations
 * with one arm, because its own times cannot show that another one has become better. A *shift* is two probes of one arm, both `probeGain` better than
 * the arm in use, or a slowdown by `certainChange`: from there on no older sample counts. A moved job needs neither, because its new place has its own evidence.
 * Cost: O(n) medians, and a test where they differ.
 */

import type { Arm } from "../domain/bandwidth/collective-arm.ts";
import type { Sample } from "./choice.ts";
import { isSmallerTest } from "./rank-tests.ts";
import { medianOf } from "./trimming.ts";

export const SHIFT = Object.freeze({
  reference: 20,
  recent: 12,
  /** Iterations between two looks. */
  every: 6,
  leastChange: 0.12,
  /** A slowdown that hardly ever is that of all arms: everything is explored anew at once. */
  certainChange: 0.5,
  p: 1e-4,
  probeAfter: 240,
  /** Times are seldom under way for so many iterations: where steps take milliseconds, or the tuner was away. */
  inUse: 96,
  /** Of one arm. */
  probes: 2,
  /** Of both probes over the arm in use: then everything is explored anew. */
  probeGain: 0.12,
});

const LEAST_STRETCH = SHIFT.reference + SHIFT.recent;
/** The probes of all arms come within so many iterations after a stretch. */
const PROBING = 24;

/**
 * What came after the last shift, from the sample that showed it on. Samples of several jobs are not comparable in time, so probes and stretch are of
 * one job.
 */
export function sinceShift(samples: readonly Sample[]): readonly Sample[] {
  let from = 0;
  /** The last long stretch: its arm, and where it ended. */
  let stretchFrom = 0;
  let used: Used | undefined;
  for (const [at, sample] of samples.entries()) {
    const before = samples[at - 1];
    if (before !== undefined && (before.arm !== sample.arm || before.run !== sample.run)) {
      if (at - stretchFrom >= LEAST_STRETCH) used = { last: at - 1, limit: limitOf(samples, at) };
      stretchFrom = at;
    }
    const length = at + 1 - stretchFrom;
    const isLook = length >= LEAST_STRETCH && (length - LEAST_STRETCH) % SHIFT.every === 0;
    const isSlow = isLook && changeAt(samples, at + 1) >= Math.log(1 + SHIFT.certainChange);
    if (!isSlow && !isBetterTwice(samples, at, used)) continue;
    from = at;
    stretchFrom = at;
    used = undefined;
  }
  return from === 0 ? samples : samples.slice(from);
}

const limitOf = (samples: readonly Sample[], end: number): number =>
  medianOf(times(samples.slice(end - SHIFT.reference, end))) * (1 - SHIFT.probeGain);

interface Used {
  /** The last iteration of a stretch. */
  readonly last: number;
  /** What a probe must stay below. */
  readonly limit: number;
}

/** Were all probes of the arm at `at` below the limit. */
function isBetterTwice(samples: readonly Sample[], at: number, used: Used | undefined): boolean {
  if (used === undefined || at - used.last > PROBING) return false;
  const last = samples[at];
  const stretch = samples[used.last];
  if (last === undefined || stretch === undefined || last.arm === stretch.arm) return false;
  const own = samples
    .slice(used.last + 1, at + 1)
    .filter(({ arm, run }) => arm === last.arm && run === stretch.run);
  return own.length >= SHIFT.probes && own.every(({ ms }) => ms < used.limit);
}

/** The latest samples of one arm and one job. */
function latestStretch(samples: readonly Sample[]): readonly Sample[] {
  const last = samples.at(-1);
  let length = 0;
  for (; length < samples.length; length += 1) {
    const sample = samples[samples.length - 1 - length];
    if (sample?.arm !== last?.arm || sample?.run !== last?.run) break;
  }
  return samples.slice(samples.length - length);
}

/** An arm whose only probe after a stretch was that much better: it is worth a second one. */
export function promisingProbe(epoch: readonly Sample[]): Arm | undefined {
  for (let end = epoch.length - 1; end >= Math.max(1, epoch.length - PROBING); end -= 1) {
    const stretch = latestStretch(epoch.slice(0, end));
    if (stretch.length < LEAST_STRETCH) continue;
    const limit = limitOf(epoch, end);
    const used = stretch.at(-1);
    const probes = epoch
      .slice(end)
      .filter(({ arm, run }) => arm !== used?.arm && run === used?.run);
    const once = probes.filter(({ arm }) => probes.filter((each) => each.arm === arm).length === 1);
    return once.find(({ ms }) => ms < limit)?.arm;
  }
  return undefined;
}

/** By how much in log time the arm in use became slower in its latest stretch, at most; 0 when that is not beyond doubt. */
export function slowdownOf(epoch: readonly Sample[]): number {
  const { length } = latestStretch(epoch);
  let most = 0;
  for (let end = LEAST_STRETCH; end <= length; end += SHIFT.every)
    most = Math.max(most, changeAt(epoch, epoch.length - length + end));
  return most;
}

/** By how much the last iterations before `end` are beyond doubt slower than the ones before them; else 0. They are of one arm. */
function changeAt(samples: readonly Sample[], end: number): number {
  const recent = times(samples.slice(end - SHIFT.recent, end));
  const before = times(samples.slice(end - LEAST_STRETCH, end - SHIFT.recent));
  const change = Math.log(medianOf(recent) / medianOf(before));
  const isLarge = change >= Math.log(1 + SHIFT.leastChange);
  return isLarge && isSmallerTest(before, recent).p < SHIFT.p ? change : 0;
}

/**
 * The arm of the latest long stretch that was decided for. It is too long for most waits for times, and where samples tell the policy in force,
 * what ran under one that tried several arms was such a wait, however long.
 */
export function inUseOf(epoch: readonly Sample[]): Arm | undefined {
  const waits = versionsThatTried(epoch);
  let length = 0;
  for (let at = epoch.length - 1; at >= 0; at -= 1) {
    const [sample, after] = [epoch[at], epoch[at + 1]];
    if (sample?.arm !== after?.arm || sample?.run !== after?.run) length = 0;
    if (sample?.version === undefined || !waits.has(sample.version)) length += 1;
    if (length >= SHIFT.inUse) return sample?.arm;
  }
  return undefined;
}

function versionsThatTried(epoch: readonly Sample[]): ReadonlySet<number> {
  const first = new Map<number, Arm>();
  const found = new Set<number>();
  for (const { arm, version } of epoch) {
    if (version === undefined) continue;
    if ((first.get(version) ?? arm) !== arm) found.add(version);
    first.set(version, arm);
  }
  return found;
}

export const isLongInUse = (epoch: readonly Sample[]): boolean =>
  latestStretch(epoch).length >= SHIFT.probeAfter;

const times = (values: readonly { readonly ms: number }[]): readonly number[] =>
  values.map(({ ms }) => ms);
