/**
 * @file Detects a shift: the arm in use no longer performs as it did when it was chosen.
 *
 * The last `recent` iterations of an arm are compared with its `reference` ones before: a shift is a change of the median by `leastChange`
 * that a Mann–Whitney test finds in one direction or the other with p < `p`. Both ignore single stalls, however long. The arm's own times
 * cannot show that another arm has become better; a probe can: after `probeAfter` iterations with one arm the rival is tried again. A moved
 * job needs neither, because its new place has its own evidence. After a shift no older sample counts.
 * Price: at most the exploring budget once in `leastEpoch` iterations, and 2 probes in `probeAfter`. Cost: O(n) tests of constant size.
 */

import type { Sample } from "./choice.ts";
import { isSmallerTest } from "./rank-tests.ts";
import { medianOf } from "./trimming.ts";

export const SHIFT = Object.freeze({
  reference: 20,
  recent: 12,
  /** Iterations between two looks. */
  every: 4,
  leastChange: 0.12,
  p: 1e-4,
  leastEpoch: 60,
  probeAfter: 240,
  probes: 2,
  /** Of the rival's probes over the arm in use: then everything is explored anew. */
  probeGain: 0.12,
});

/**
 * What came after the last shift. What showed the shift is not part of it: it was looked at because it was unusual, so it would speak against its arm. Iterations of several jobs are not comparable in time, so they are looked at
 * job by job.
 */
export function sinceShift(samples: readonly Sample[]): readonly Sample[] {
  let epoch: Sample[] = [];
  for (const [at, sample] of samples.entries()) {
    epoch.push(sample);
    const isLook = (at + 1) % SHIFT.every === 0 && epoch.length >= SHIFT.leastEpoch;
    if (hasBetterProbe(epoch) || (isLook && isShifted(epoch))) epoch = [];
  }
  return epoch;
}

/** Iterations since another arm than the latest was used. */
export function stretchOf(samples: readonly Sample[]): number {
  const last = samples.at(-1)?.arm;
  let length = 0;
  while (length < samples.length && samples[samples.length - 1 - length]?.arm === last) length += 1;
  return length;
}

/** Does the epoch end with probes that are better than the arm that was in use for long. */
function hasBetterProbe(epoch: readonly Sample[]): boolean {
  const from = epoch.length - SHIFT.probes;
  const before = epoch[from - 1];
  if (from < SHIFT.probeAfter || before === undefined || before.arm === epoch[from]?.arm)
    return false;
  const probes = epoch.slice(from);
  if (probes.some(({ arm, run }) => arm !== probes[0]?.arm || run !== before.run)) return false;
  const used = epoch.slice(from - SHIFT.probeAfter, from).filter(({ run }) => run === before.run);
  if (used.length < SHIFT.probeAfter || used.some(({ arm }) => arm !== before.arm)) return false;
  const limit = medianOf(times(used.slice(-SHIFT.reference))) * (1 - SHIFT.probeGain);
  return probes.every(({ ms }) => ms < limit);
}

/** Does the latest sample's arm show a shift, in its own job. */
function isShifted(epoch: readonly Sample[]): boolean {
  const last = epoch.at(-1);
  if (last === undefined) return false;
  const own = epoch.filter(({ arm, run }) => arm === last.arm && run === last.run);
  if (own.length < SHIFT.recent + SHIFT.reference) return false;
  const before = own.slice(-SHIFT.recent - SHIFT.reference, -SHIFT.recent);
  return hasMoved(times(before), times(own.slice(-SHIFT.recent)));
}

const times = (values: readonly { readonly ms: number }[]): readonly number[] =>
  values.map(({ ms }) => ms);

function hasMoved(before: readonly number[], recent: readonly number[]): boolean {
  const change = Math.abs(Math.log(medianOf(recent) / medianOf(before)));
  if (change < Math.log(1 + SHIFT.leastChange)) return false;
  const { p, delta } = isSmallerTest(recent, before);
  return delta > 0 ? p < SHIFT.p : isSmallerTest(before, recent).p < SHIFT.p;
}
