/**
 * @file The surrogate's view of a candidate: one token for each kind of host in it, without the identity of GPUs.
 *
 * A host is described by its GPU count, the intra-host GB/s of its mask by the lookup table (BandPilot §4.2.1), its GPU type, how far
 * it was seen to fall behind hosts like it (0 unless learned, `host-offsets.ts`), and of the whole candidate its size and the GPU count of
 * the host that has fewest, because each host reaches the network through its own GPUs. No bandwidth is compared with another: how
 * hosts limit each other is what the Transformer has to learn. Bandwidths are
 * logarithms relative to the domain's median, in steps of 1 %, so that hosts whose tables differ by noise look the same; hosts that
 * look the same become one token with their number. Cost: O(hosts · log hosts) a candidate, after the first sight of a mask.
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../domain/lease/lease.ts";

/** What of a domain the features need beside the candidate; plain data, kept with the parameters. */
export interface FeatureSettings {
  /** GPU types by slot, in the order of first sight; a type without a slot has none. */
  readonly gpuTypes: readonly string[];
  /** GB/s whose logarithm counts as 0. */
  readonly usualGbs: number;
  /** What a count's own slot says. */
  readonly countSlot: number;
  /** By host id: mean log of what it gave against what hosts like it gave; absent = 0. */
  readonly offsets: Readonly<Record<string, number>>;
}

/** What the model sees of some GPUs of a host. Two hosts that look the same share one. */
export interface HostLook {
  /** Identifies a look, and orders looks independently of earlier questions. */
  readonly name: string;
  readonly gpuType: string;
  readonly count: number;
  /** Logarithm of intra-host GB/s over the usual; 0 of one GPU. */
  readonly logGbs: number;
  readonly offset: number;
}

export interface Token {
  readonly features: readonly number[];
  /** Hosts of the candidate that look like this. */
  readonly count: number;
}

/** GPU types that have a slot of their own. */
const TYPE_SLOTS = 6;
/** Counts that have a slot of their own: bandwidth jumps from one count to the next. */
const COUNT_SLOTS = 8;
const FIRST_COUNT_SLOT = 6;
const FIRST_TYPE_SLOT = FIRST_COUNT_SLOT + COUNT_SLOTS;
const LEAST_SLOT = FIRST_TYPE_SLOT + TYPE_SLOTS;
export const FEATURE_COUNT = LEAST_SLOT + 1;

/**
 * What a count's own slot says. Faint, so that what holds for all counts is learned first, and the fainter the fewer samples there
 * are to learn the exceptions from.
 */
const countSlot = (sampleCount: number): number => Math.min(0.3, sampleCount / 1_000);
/** Relative step of bandwidths. */
const GBS_STEP = 0.01;
/** Step of offsets. */
const OFFSET_STEP = 0.05;

/** The looks of a candidate's hosts in order of their names, equal ones side by side. */
export type HostLooks = (candidate: Candidate) => readonly HostLook[];

export function hostLooks(domain: BandwidthDomain, settings: FeatureSettings): HostLooks {
  const offsetOf = new Map(Object.entries(settings.offsets));
  const byName = new Map<string, HostLook>();
  const byMask = domain.hosts.map(() => new Map<number, HostLook>());
  const lookOf = (host: number, mask: number): HostLook => {
    const old = byMask[host]?.get(mask);
    if (old !== undefined) return old;
    const facts = domain.hosts[host];
    if (facts === undefined) throw new RangeError(`the domain has no host ${String(host)}`);
    const count = popCount(mask);
    const gbs = count === 1 ? undefined : domain.intraGbs(host, mask);
    const logStep =
      gbs === undefined ? 0 : Math.round(Math.log(gbs / settings.usualGbs) / GBS_STEP);
    const offsetStep = Math.round((offsetOf.get(facts.id) ?? 0) / OFFSET_STEP);
    const name = `${facts.gpuType}/${String(count)}/${String(logStep)}/${String(offsetStep)}`;
    const look = byName.get(name) ?? {
      name,
      gpuType: facts.gpuType,
      count,
      logGbs: logStep * GBS_STEP,
      offset: offsetStep * OFFSET_STEP,
    };
    byName.set(name, look);
    byMask[host]?.set(mask, look);
    return look;
  };
  return (candidate) =>
    candidate
      .map(({ host, mask }) => lookOf(host, mask))
      .sort((a, b) => (a.name === b.name ? 0 : a.name < b.name ? -1 : 1));
}

export function tokensOf(looks: readonly HostLook[], settings: FeatureSettings): readonly Token[] {
  const total = looks.reduce((sum, { count }) => sum + count, 0);
  const least = looks.reduce((fewest, { count }) => Math.min(fewest, count), Infinity);
  const tokens: Token[] = [];
  for (let first = 0; first < looks.length;) {
    const look = looks[first];
    if (look === undefined) break;
    let next = first + 1;
    while (looks[next]?.name === look.name) next += 1;
    const features = new Array<number>(FEATURE_COUNT).fill(0);
    features[0] = Math.log2(look.count) - 1;
    features[1] = look.logGbs;
    features[2] = look.count === 1 ? 1 : 0;
    features[3] = look.offset;
    features[4] = Math.log2(looks.length) - 1.5;
    features[5] = (Math.log2(total) - 4) / 2;
    if (look.count <= COUNT_SLOTS) features[FIRST_COUNT_SLOT + look.count - 1] = settings.countSlot;
    features[LEAST_SLOT] = Math.log2(least) - 1;
    const slot = settings.gpuTypes.indexOf(look.gpuType);
    if (slot >= 0 && slot < TYPE_SLOTS) features[FIRST_TYPE_SLOT + slot] = 1;
    tokens.push({ features, count: next - first });
    first = next;
  }
  return tokens;
}

/** Types in order of first sight, the median of all measured bandwidths inside hosts; no offsets. */
export function featureSettings(domain: BandwidthDomain, sampleCount: number): FeatureSettings {
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
  return {
    gpuTypes,
    usualGbs: all[Math.floor(all.length / 2)] ?? 100,
    countSlot: countSlot(sampleCount),
    offsets: {},
  };
}
