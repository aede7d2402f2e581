/**
 * @file What the surrogate sees of a candidate: one token for each kind of host in it, never which GPUs they are.
 *
 * A host is described by its GPU count, the intra-host GB/s of its mask by the lookup table (BandPilot §4.2.1), its GPU type, how far
 * it was seen to fall behind hosts like it (`offsets`, 0 unless learned), and the size of the whole candidate. Nothing compares the
 * hosts of a candidate with one another: how they limit each other is what the Transformer has to learn. Bandwidths are logarithms
 * relative to the domain's median, in steps of 1 %, so that hosts whose tables differ by noise look the same; hosts that look the same
 * become one token with their number.
 */

import type { BandwidthDomain, Candidate } from "../domain/bandwidth-port.ts";

/** What of a domain the features need beside the candidate; plain data, kept with the parameters. */
export interface FeatureSettings {
  /** GPU types by slot, in the order of first sight; a type without a slot has none. */
  readonly gpuTypes: readonly string[];
  /** GB/s whose logarithm counts as 0. */
  readonly usualGbs: number;
  /** By host id: mean log of what it gave against what hosts like it gave; absent = 0. */
  readonly offsets: Readonly<Record<string, number>>;
}

export interface Token {
  readonly features: readonly number[];
  /** Hosts of the candidate that look like this. */
  readonly count: number;
}

/** GPU types that have a slot of their own. */
export const TYPE_SLOTS = 6;
/** Counts that have a slot of their own: bandwidth jumps from one count to the next, not along a line. */
const COUNT_SLOTS = 8;
export const FEATURE_COUNT = 6 + COUNT_SLOTS + TYPE_SLOTS;

/** Relative step of bandwidths. */
const GBS_STEP = 0.01;
/** Step of offsets. */
const OFFSET_STEP = 0.02;

export type Tokenise = (candidate: Candidate) => readonly Token[];

export function hostTokens(domain: BandwidthDomain, settings: FeatureSettings): Tokenise {
  const slotOf = new Map(settings.gpuTypes.map((type, slot) => [type, slot] as const));
  const offsetOf = new Map(Object.entries(settings.offsets));
  /** What does not depend on the rest of the candidate, by host and mask. */
  const known = new Map<number, readonly number[]>();
  const hostFeatures = (host: number, mask: number): readonly number[] => {
    const key = host * 2 ** 32 + mask;
    const old = known.get(key);
    if (old !== undefined) return old;
    const facts = domain.hosts[host];
    if (facts === undefined) throw new RangeError(`the domain has no host ${String(host)}`);
    const count = bitCount(mask);
    const gbs = count === 1 ? undefined : domain.intraGbs(host, mask);
    const features = new Array<number>(FEATURE_COUNT).fill(0);
    features[0] = Math.log2(count) - 1;
    features[1] = gbs === undefined ? 0 : rounded(Math.log(gbs / settings.usualGbs), GBS_STEP);
    features[2] = gbs === undefined ? 1 : 0;
    features[3] = rounded(offsetOf.get(facts.id) ?? 0, OFFSET_STEP);
    if (count <= COUNT_SLOTS) features[6 + count - 1] = 1;
    const slot = slotOf.get(facts.gpuType);
    if (slot !== undefined && slot < TYPE_SLOTS) features[6 + COUNT_SLOTS + slot] = 1;
    known.set(key, features);
    return features;
  };
  return (candidate) => {
    const total = candidate.reduce((sum, { mask }) => sum + bitCount(mask), 0);
    const byLook = new Map<string, { features: number[]; count: number }>();
    for (const { host, mask } of candidate) {
      const own = hostFeatures(host, mask);
      const look = own.join();
      const same = byLook.get(look);
      if (same !== undefined) same.count += 1;
      else {
        const features = [...own];
        features[4] = Math.log2(candidate.length) - 1.5;
        features[5] = (Math.log2(total) - 4) / 2;
        byLook.set(look, { features, count: 1 });
      }
    }
    // One order for one set of looks, so that equal candidates give equal bits.
    return [...byLook].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, token]) => token);
  };
}

/** Types in order of first sight, the median of all measured bandwidths inside hosts; no offsets. */
export function featureSettings(domain: BandwidthDomain): FeatureSettings {
  const gpuTypes = [...new Set(domain.hosts.map(({ gpuType }) => gpuType))].slice(0, TYPE_SLOTS);
  const all: number[] = [];
  const seen = new Set<string>();
  domain.hosts.forEach(({ gpuType, gpuCount }, host) => {
    // A host of each type will do: the median is only a unit.
    if (seen.has(gpuType)) return;
    seen.add(gpuType);
    for (let mask = 3; mask < 2 ** Math.min(gpuCount, 16); mask += 1) {
      const gbs = domain.intraGbs(host, mask);
      if (gbs !== undefined && Number.isFinite(gbs)) all.push(gbs);
    }
  });
  all.sort((a, b) => a - b);
  return { gpuTypes, usualGbs: all[Math.floor(all.length / 2)] ?? 100, offsets: {} };
}

const rounded = (value: number, step: number): number => Math.round(value / step) * step;

export function bitCount(mask: number): number {
  let count = 0;
  for (let rest = mask; rest !== 0; rest &= rest - 1) count += 1;
  return count;
}
