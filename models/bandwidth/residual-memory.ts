/**
 * @file Corrects the Transformer's prediction by the measurements of similar candidates.
 *
 * The Transformer smooths; bandwidth jumps. The model keeps the Transformer's error on each measurement (the residual of the
 * logarithm). A candidate whose hosts match those of a measurement in type and GPU count, one by one, takes over that residual: in full
 * if the intra-host bandwidths are alike too, less the more they differ (Gaussian kernel, several measurements are averaged, with a
 * little weight on no correction). Nothing is carried between different counts. Measurements that the slowest member host explains
 * carry no information on the network and are not used. Cost: the measurements with the same counts, by index.
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import type { HostLook, HostLooks } from "./features.ts";

/** A measurement as the model keeps it; hosts by id, because a domain's order may change. */
export interface RememberedSample {
  readonly hosts: readonly string[];
  readonly masks: readonly number[];
  readonly logGbs: number;
  /** What the Transformer's answer lacks; absent when the tables explain the measurement. */
  readonly residual?: number;
}

/** Difference of logarithms of intra-host bandwidth at which a measurement counts much less. */
const INTRA_REACH = 0.3;
/** The same for offsets of hosts: one that has fallen behind is another host. */
const OFFSET_REACH = 0.1;
/** Weight of no correction against one measurement. */
const DOUBT = 0.05;

/** Looks in the order of `HostLooks`. */
type Correction = (looks: readonly HostLook[]) => Corrected;

export interface Corrected {
  /** To be added to the logarithm of the Transformer's answer. */
  readonly log: number;
  /** 0 to 1: how much of that is a guess; 1 where nothing like it was measured. */
  readonly unseen: number;
}

const AS_IT_IS: Corrected = { log: 0, unseen: 1 };

interface Neighbour {
  readonly looks: readonly HostLook[];
  readonly residual: number;
}

export function residualCorrection(
  domain: BandwidthDomain,
  samples: readonly RememberedSample[],
  looksOf: HostLooks,
): Correction {
  const byKey = new Map<string, Neighbour[]>();
  for (const sample of samples) {
    const { residual } = sample;
    const shares = sharesOf(domain, sample);
    if (residual === undefined || shares === undefined) continue;
    const looks = matched(looksOf(shares));
    const key = keyOf(looks);
    const alike = byKey.get(key);
    if (alike === undefined) byKey.set(key, [{ looks, residual }]);
    else alike.push({ looks, residual });
  }
  return (unordered) => {
    if (byKey.size === 0) return AS_IT_IS;
    const looks = matched(unordered);
    let sum = 0;
    let total = DOUBT;
    for (const other of byKey.get(keyOf(looks)) ?? []) {
      const weight = Math.exp(-apart(looks, other.looks) / 2);
      sum += weight * other.residual;
      total += weight;
    }
    return { log: sum / total, unseen: DOUBT / total };
  };
}

/** The candidate of a remembered sample; undefined when one of its hosts has left the domain. */
export function sharesOf(
  domain: BandwidthDomain,
  { hosts, masks }: RememberedSample,
): Candidate | undefined {
  const shares = hosts.flatMap((id, place) => {
    const host = domain.hosts.findIndex((one) => one.id === id);
    const mask = masks[place];
    return host < 0 || mask === undefined ? [] : [{ host, mask }];
  });
  return shares.length < hosts.length ? undefined : shares.sort((a, b) => a.host - b.host);
}

/** In the order in which hosts of two candidates are held against each other. */
const matched = (looks: readonly HostLook[]): readonly HostLook[] =>
  [...looks].sort((a, b) => {
    if (a.gpuType !== b.gpuType) return a.gpuType < b.gpuType ? -1 : 1;
    return a.count - b.count || a.offset - b.offset || a.logGbs - b.logGbs;
  });

/** Types and counts: what must be equal. */
const keyOf = (looks: readonly HostLook[]): string =>
  looks.map(({ gpuType, count }) => `${gpuType}:${String(count)}`).join();

/** Mean square over the hosts, so that more hosts do not count as further apart. */
function apart(a: readonly HostLook[], b: readonly HostLook[]): number {
  let sum = 0;
  a.forEach((look, place) => {
    const other = b[place] ?? look;
    sum += ((look.logGbs - other.logGbs) / INTRA_REACH) ** 2;
    sum += ((look.offset - other.offset) / OFFSET_REACH) ** 2;
  });
  return sum / Math.max(1, a.length);
}
