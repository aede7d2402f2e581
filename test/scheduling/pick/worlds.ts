/** @file Small bandwidth domains with made-up truths, and every subset of their GPUs: what the searches are held against. */

import fc from "fast-check";
import type {
  BandwidthDomain,
  BandwidthPredictor,
  Candidate,
} from "../../../domain/bandwidth/bandwidth-port.ts";
import { hostId } from "../../../domain/values/ids.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { fullMask } from "../../../lib/bits.ts";

export interface World {
  readonly predictor: BandwidthPredictor;
  readonly freeMasks: readonly number[];
  readonly gpus: number;
}

export interface WorldSpec {
  /** GPUs of each host. */
  readonly sizes: readonly number[];
  readonly freeMasks: readonly number[];
  readonly gpus: number;
  readonly seed: number;
  /** Different intra-host tables; hosts with the same one are alike. */
  readonly tables: number;
  readonly isClamped: boolean;
  readonly hasKinds: boolean;
}

/** A number from 0 to 99 that looks random. */
export function scrambled(...parts: readonly number[]): number {
  let hash = 2166136261;
  for (const part of parts) {
    hash = Math.imul(hash ^ part, 16777619);
    hash = Math.imul(hash ^ (hash >>> 13), 0x5bd1e995);
  }
  return ((hash ^ (hash >>> 15)) >>> 0) % 100;
}

/**
 * Intra-host tables of random numbers. A group over several hosts has a random number of its counts, and is not faster than its
 * slowest host where the truth is clamped; where it is not, it gains a little by the intra-host bandwidth of its hosts.
 */
export function worldOf(spec: WorldSpec): World {
  const { sizes, freeMasks, gpus, seed, tables, isClamped, hasKinds } = spec;
  const tableOf = (host: number): number => host % tables;
  const domain: BandwidthDomain = {
    hosts: sizes.map((gpuCount, host) => ({
      id: hostId("c0", `h${host}`),
      gpuCount,
      gpuType: `type-${tableOf(host)}`,
    })),
    intraGbs: (host, mask) =>
      popCount(mask) === 1 ? Infinity : 10 + scrambled(seed, tableOf(host), mask),
  };
  const gbsOf = (candidate: Candidate): number => {
    const inside = candidate.map(({ host, mask }) => domain.intraGbs(host, mask) ?? 0);
    const slowest = Math.min(...inside);
    if (candidate.length === 1) return slowest;
    const counts = candidate.map(({ mask }) => popCount(mask)).sort((a, b) => b - a);
    const fabric = 5 + scrambled(seed, ...counts);
    if (isClamped) return Math.min(slowest, fabric);
    const finite = inside.filter(Number.isFinite);
    return fabric + finite.reduce((sum, gbs) => sum + gbs, 0) / 1_000;
  };
  return {
    predictor: {
      version: "made up",
      domain,
      ...(isClamped && { isClamped }),
      ...(hasKinds && {
        kindOf: ({ host, mask }) => `${popCount(mask)} ${domain.intraGbs(host, mask)}`,
      }),
      predict: (candidates) => candidates.map(gbsOf),
    },
    freeMasks: freeMasks.map((mask, host) => mask & fullMask(sizes[host] ?? 0)),
    gpus,
  };
}

/** Up to 12 GPUs on up to 4 hosts, some of them taken. */
export const worlds = (): fc.Arbitrary<World> =>
  fc
    .record({
      sizes: fc
        .array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 })
        .filter((sizes) => sizes.reduce((sum, size) => sum + size, 0) <= 12),
      freeMasks: fc.array(fc.integer({ min: 0, max: 15 }), { minLength: 4, maxLength: 4 }),
      gpus: fc.integer({ min: 1, max: 6 }),
      seed: fc.nat(10_000),
      tables: fc.integer({ min: 1, max: 4 }),
      isClamped: fc.boolean(),
      hasKinds: fc.boolean(),
    })
    .map((spec) => worldOf({ ...spec, freeMasks: spec.freeMasks.slice(0, spec.sizes.length) }));

/** Every way to take so many of the free GPUs. */
export function allPicks({ freeMasks, gpus }: World): readonly Candidate[] {
  const found: Candidate[] = [];
  const from = (host: number, open: number, shares: Candidate): void => {
    if (open === 0) {
      found.push(shares);
      return;
    }
    const free = freeMasks[host];
    if (free === undefined) return;
    from(host + 1, open, shares);
    for (let mask = free; mask !== 0; mask = (mask - 1) & free)
      if (popCount(mask) <= open)
        from(host + 1, open - popCount(mask), [...shares, { host, mask }]);
  };
  from(0, gpus, []);
  return found;
}

export const gbsOf = ({ predictor }: World, candidate: Candidate): number =>
  predictor.predict([candidate])[0] ?? NaN;

export const bestOfAll = (world: World, picks: readonly Candidate[] = allPicks(world)): number =>
  Math.max(...world.predictor.predict(picks));

/** Of the wanted size, within what is free, ascending, no share empty. */
export function isAnswer({ freeMasks, gpus }: World, candidate: Candidate): boolean {
  const size = candidate.reduce((sum, { mask }) => sum + popCount(mask), 0);
  return (
    size === gpus &&
    candidate.every(
      ({ host, mask }, at) =>
        mask !== 0 &&
        (mask & ~(freeMasks[host] ?? 0)) === 0 &&
        host > (candidate[at - 1]?.host ?? -1),
    )
  );
}
