/**
 * @file A candidate as a vector of fixed length, for models that cannot read sets: trees and nearest neighbours.
 *
 * Hosts are put in order, so that the same kinds of hosts give the same vector: once by GPU count, most first, once by intra-host
 * bandwidth, slowest first. The second order shows a tree the slowest member directly. Only the rivals get it, so that they are as strong
 * as they can be. Hosts beyond the eighth are left out, in the middle.
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../domain/lease/lease.ts";

/** Hosts that have a place. */
const PLACES = 8;
/** Logarithm of the bandwidth of one GPU, which sets no limit: above every measured one. */
const NO_LIMIT = Math.log(2_000);

type Vectorise = (candidate: Candidate) => readonly number[];

export function candidateVectors(domain: BandwidthDomain): Vectorise {
  const places = [...domain.hosts.keys()].slice(0, PLACES);
  const types = [...new Set(domain.hosts.map(({ gpuType }) => gpuType))];
  return (candidate) => {
    const hosts = candidate.map(({ host, mask }) => {
      const count = popCount(mask);
      const gbs = count === 1 ? undefined : domain.intraGbs(host, mask);
      return {
        count,
        log: gbs === undefined ? NO_LIMIT : Math.log(gbs),
        type: types.indexOf(domain.hosts[host]?.gpuType ?? ""),
      };
    });
    const total = hosts.reduce((sum, { count }) => sum + count, 0);
    const byCount = [...hosts].sort((a, b) => b.count - a.count || a.log - b.log);
    const bySpeed = [...hosts].sort((a, b) => a.log - b.log || a.count - b.count);
    return [
      candidate.length,
      total,
      ...places.map((place) => byCount[place]?.count ?? 0),
      ...places.map((place) => byCount[byCount.length - 1 - place]?.count ?? 0),
      ...places.map((place) => bySpeed[place]?.log ?? NO_LIMIT),
      ...places.map((place) => bySpeed[place]?.count ?? 0),
      ...types.map((_, type) =>
        hosts.reduce((sum, host) => sum + (host.type === type ? host.count : 0), 0),
      ),
    ];
  };
}
