/** @file Translates between GPUs of hosts and candidates of a predictor, which numbers the hosts of its cluster. Cost: O(shares). */

import type { BandwidthPredictor, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import { byCodeUnit, type HostId } from "../../domain/values/ids.ts";

export type HostIndices = ReadonlyMap<HostId, number>;

/** Cache of a pure function. */
const known = new WeakMap<BandwidthPredictor["domain"], HostIndices>();

export function indicesOf({ domain }: BandwidthPredictor): HostIndices {
  const indices = known.get(domain) ?? new Map(domain.hosts.map(({ id }, index) => [id, index]));
  known.set(domain, indices);
  return indices;
}

/** Ascending by host; undefined when the domain lacks one of them. */
export function candidateOf(
  gpus: readonly HostGpus[],
  indexOf: HostIndices,
): Candidate | undefined {
  const shares = gpus.flatMap(({ host, mask }) => {
    const index = indexOf.get(host);
    return index === undefined ? [] : [{ host: index, mask }];
  });
  return shares.length < gpus.length ? undefined : shares.sort((a, b) => a.host - b.host);
}

export const gpusOf = (pick: Candidate, { domain }: BandwidthPredictor): readonly HostGpus[] =>
  pick
    .flatMap(({ host, mask }) => {
      const id = domain.hosts[host]?.id;
      return id === undefined ? [] : [{ host: id, mask }];
    })
    .sort((a, b) => byCodeUnit(a.host, b.host));
