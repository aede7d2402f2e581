/**
 * @file What the running gangs send between racks, and what is left of a newcomer's bandwidth beside them, on clusters whose racks matter.
 *
 * A gang over several racks sends its whole bandwidth out of each of them (a ring leaves a rack once on every channel). How much the uplinks of a rack
 * carry is not known; sound hosts of a rack together could send C, which no fabric exceeds. So of a gang over several racks is left
 *
 *     min over its racks of C / (C + D),    D = bandwidths of the other gangs that leave the rack
 *
 * as if everybody's time were spread evenly: enough to tell quiet racks from busy ones, which is all that a choice between them needs. A gang in
 * one rack meets nobody. Cost: O(hosts), and O(shares) for each gang and candidate.
 */

import type { BandwidthDomain, Candidate } from "./bandwidth-port.ts";
import type { Street } from "./sharing.ts";

export interface RackTraffic {
  /** GB/s that gangs send out of the rack of this host. */
  readonly ofHost: (host: number) => number;
  /** What a candidate keeps of its bandwidth, above 0 to 1. */
  readonly partOf: (candidate: Candidate) => number;
}

/** Hosts without a rack are in one. */
export function rackTraffic(
  { hosts }: BandwidthDomain,
  { neighbours, capacityOf }: Street,
): RackTraffic {
  const numbers = new Map<string | undefined, number>();
  const rackOf = hosts.map(({ rack }) => {
    const number = numbers.get(rack) ?? numbers.size;
    numbers.set(rack, number);
    return number;
  });
  const racksOf = (shares: Candidate): ReadonlySet<number> =>
    new Set(shares.map(({ host }) => rackOf[host] ?? 0));
  const capacity = new Float64Array(numbers.size);
  for (const [host, rack] of rackOf.entries())
    capacity[rack] = (capacity[rack] ?? 0) + capacityOf(host);
  const demand = new Float64Array(numbers.size);
  for (const { shares, gbs } of neighbours) {
    const racks = racksOf(shares);
    if (racks.size > 1) for (const rack of racks) demand[rack] = (demand[rack] ?? 0) + gbs;
  }
  const left = Array.from(demand, (gbs, rack) => {
    const most = capacity[rack] ?? 0;
    return gbs === 0 ? 1 : most / (most + gbs);
  });
  return {
    ofHost: (host) => demand[rackOf[host] ?? 0] ?? 0,
    partOf: (candidate) => {
      const racks = racksOf(candidate);
      let part = 1;
      if (racks.size > 1) for (const rack of racks) part = Math.min(part, left[rack] ?? 1);
      return part;
    },
  };
}
