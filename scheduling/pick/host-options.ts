/**
 * @file The sets that one host can give to a pick: for each number of its free GPUs the set with the highest intra-host bandwidth.
 *
 * The bandwidth of a group over several hosts depends on a host through its number of GPUs and their intra-host bandwidth, and more of the
 * latter never hurts; so of all sets of one size only the best counts. Ties: the lowest mask. A set without a measurement comes after every
 * measured one. Hosts of up to `MOST_LISTED` GPUs compare all sets; larger ones give up one GPU after the other, always the one whose
 * loss costs least. Computed once for each free mask, then kept. Cost of the first time: O(2^GPUs).
 */

import { popCount } from "../../domain/lease/lease.ts";
import { fullMask } from "../../lib/bits.ts";
import type { BandwidthDomain } from "./bandwidth-port.ts";

export interface HostOptions {
  /** Index in the domain. */
  readonly host: number;
  readonly freeMask: number;
  readonly free: number;
  readonly gpuCount: number;
  /** None of its GPUs is taken. */
  readonly isWhole: boolean;
  /** By number of GPUs, from 0 to `free`. */
  readonly masks: readonly number[];
  /** Intra-host GB/s of the mask; Infinity where it sets no limit, undefined where nothing was measured. */
  readonly gbs: readonly (number | undefined)[];
}

const MOST_LISTED = 12;
/** Free masks that are remembered of one host; all of an 8-GPU host. */
const MOST_KNOWN = 256;

/** The memory of a pure function, by domain, host and free mask. */
const known = new WeakMap<BandwidthDomain, Map<number, HostOptions>[]>();

export function optionsOf(domain: BandwidthDomain, host: number, freeMask: number): HostOptions {
  const hosts = known.get(domain) ?? domain.hosts.map(() => new Map<number, HostOptions>());
  known.set(domain, hosts);
  const ofHost = hosts[host];
  const earlier = ofHost?.get(freeMask);
  if (earlier !== undefined) return earlier;
  const options = bestSets(domain, host, freeMask);
  if (ofHost !== undefined && ofHost.size >= MOST_KNOWN) ofHost.clear();
  ofHost?.set(freeMask, options);
  return options;
}

/** Of every host that has something to give, in the domain's order. */
export function allOptions(
  domain: BandwidthDomain,
  freeMasks: readonly number[],
): readonly HostOptions[] {
  return domain.hosts.flatMap(({ gpuCount }, host) => {
    const mask = (freeMasks[host] ?? 0) & fullMask(gpuCount);
    return mask === 0 ? [] : [optionsOf(domain, host, mask)];
  });
}

function bestSets(domain: BandwidthDomain, host: number, freeMask: number): HostOptions {
  const { gpuCount = 0 } = domain.hosts[host] ?? {};
  const free = popCount(freeMask);
  const sets = free <= MOST_LISTED ? listed : reduced;
  return {
    host,
    freeMask,
    free,
    gpuCount,
    isWhole: free === gpuCount,
    ...sets((mask) => domain.intraGbs(host, mask), freeMask, free),
  };
}

type Lookup = (mask: number) => number | undefined;
type Sets = Pick<HostOptions, "masks" | "gbs">;

function listed(gbsOf: Lookup, freeMask: number, free: number): Sets {
  const masks = new Array<number>(free + 1).fill(0);
  const gbs = new Array<number | undefined>(free + 1).fill(undefined);
  gbs[0] = Infinity;
  // Subsets of a mask, from large to small numbers: of equals the last, so the lowest, stays.
  for (let mask = freeMask; mask !== 0; mask = (mask - 1) & freeMask) {
    const count = popCount(mask);
    const found = gbsOf(mask);
    if (masks[count] !== 0 && (found ?? -1) < (gbs[count] ?? -1)) continue;
    masks[count] = mask;
    gbs[count] = found;
  }
  return { masks, gbs };
}

function reduced(gbsOf: Lookup, freeMask: number, free: number): Sets {
  const masks = new Array<number>(free + 1).fill(0);
  const gbs = new Array<number | undefined>(free + 1).fill(undefined);
  gbs[0] = Infinity;
  let mask = freeMask;
  for (let count = free; count > 0; count -= 1) {
    masks[count] = mask;
    gbs[count] = gbsOf(mask);
    let best = 0;
    let bestGbs = -Infinity;
    for (let rest = mask; rest !== 0; rest &= rest - 1) {
      const less = mask & ~(rest & -rest);
      const found = gbsOf(less) ?? -1;
      // The last of equals lacks the highest GPU, so the lowest stay.
      if (found < bestGbs) continue;
      best = less;
      bestGbs = found;
    }
    mask = best;
  }
  return { masks, gbs };
}
