/**
 * @file Chooses the sets over several hosts whose measurement teaches the surrogate most, before anything over hosts was measured.
 *
 * A measurement that the slowest member host explains says nothing of the network. So of each shape (the multiset of GPU counts) the
 * arrangement over hosts and masks is measured whose slowest member is fastest by the lookup tables: it shows the network up to the
 * highest bandwidth. Shapes come in random order; shapes that even so can show no more than what one GPU per host is likely to
 * give come last. The rest of the budget (`ANY_SHARE`) goes to requests as they come: a size, then any GPUs of that many, so that the
 * limits inside hosts are seen too. Cost: O(shapes · arrangements), at most `MOST_VECTORS` vectors of counts.
 */

import type { BandwidthDomain, Candidate, PickShare } from "../domain/bandwidth-port.ts";
import { byCodeUnit } from "../domain/ids.ts";
import type { Random } from "../lib/random.ts";
import { bitCount } from "./features.ts";
import { insideGbs } from "./inside.ts";

export interface TrainingSetsNeed {
  readonly count: number;
  readonly random: Random;
}

/** The share of the budget that goes to requests as they come. */
const ANY_SHARE = 0.3;
/** Vectors of counts that are looked at; of more a sample. */
const MOST_VECTORS = 10_000;
/** A candidate is over at most so many hosts. */
const MOST_HOSTS = 8;

export function trainingSets(
  domain: BandwidthDomain,
  { count, random }: TrainingSetsNeed,
): readonly Candidate[] {
  const shaped = shapes(domain, random.stream("shapes"));
  const wanted = Math.min(shaped.length, Math.ceil(count * (1 - ANY_SHARE)));
  const chosen = shaped.slice(0, wanted);
  const seen = new Set(chosen.map(nameOf));
  const draws = random.stream("any");
  for (let tries = 0; chosen.length < count && tries < 20 * count; tries += 1) {
    const any = anyCandidate(domain, draws);
    if (any.length < 2 || seen.has(nameOf(any))) continue;
    seen.add(nameOf(any));
    chosen.push(any);
  }
  return chosen;
}

/** One candidate for each shape, in random order. */
function shapes(domain: BandwidthDomain, random: Random): Candidate[] {
  const best = domain.hosts.map((_, host) => bestMasks(domain, host));
  const found = new Map<string, { readonly candidate: Candidate; readonly inside: number }>();
  for (const counts of countVectors(domain, random)) {
    const candidate = counts.flatMap((count, host): PickShare[] => {
      const mask = best[host]?.[count];
      return count === 0 || mask === undefined ? [] : [{ host, mask }];
    });
    if (candidate.length < 2) continue;
    const shape = candidate
      .map(({ mask }) => bitCount(mask))
      .sort((a, b) => b - a)
      .join("+");
    // The noise breaks ties, so that equal hosts take turns.
    const inside = insideGbs(domain, candidate) * (1 + 0.01 * random.unit());
    const old = found.get(shape);
    if (old === undefined || inside > old.inside) found.set(shape, { candidate, inside });
  }
  return [...found.entries()]
    .map(([shape, { candidate }]) => ({ shape, candidate, place: random.unit() }))
    .sort((a, b) => a.place - b.place || byCodeUnit(a.shape, b.shape))
    .map(({ candidate }) => candidate);
}

/** By count: the mask with the highest intra-host bandwidth; the lowest of equal ones. */
function bestMasks(domain: BandwidthDomain, host: number): readonly (number | undefined)[] {
  const gpuCount = Math.min(domain.hosts[host]?.gpuCount ?? 0, 16);
  const best: { mask: number; gbs: number }[] = [];
  for (let mask = 1; mask < 2 ** gpuCount; mask += 1) {
    const count = bitCount(mask);
    const gbs = count === 1 ? Infinity : (domain.intraGbs(host, mask) ?? 0);
    if (gbs > (best[count]?.gbs ?? -1)) best[count] = { mask, gbs };
  }
  return best.map((one) => one.mask);
}

function countVectors(domain: BandwidthDomain, random: Random): readonly (readonly number[])[] {
  const sizes = domain.hosts.map(({ gpuCount }) => gpuCount + 1);
  const all = sizes.reduce((product, size) => product * size, 1);
  if (all <= MOST_VECTORS) {
    return Array.from({ length: all }, (_, code) => {
      let rest = code;
      return sizes.map((size) => {
        const count = rest % size;
        rest = (rest - count) / size;
        return count;
      });
    });
  }
  return Array.from({ length: MOST_VECTORS }, () => {
    const members = new Set<number>();
    const wanted = 2 + random.below(Math.min(MOST_HOSTS, sizes.length) - 1);
    while (members.size < wanted) members.add(random.below(sizes.length));
    return sizes.map((size, host) => (members.has(host) ? 1 + random.below(size - 1) : 0));
  });
}

/** A number of GPUs from 2 up, then any of them. */
function anyCandidate(domain: BandwidthDomain, random: Random): Candidate {
  const gpus = domain.hosts.flatMap(({ gpuCount }, host) =>
    Array.from({ length: gpuCount }, (_, gpu) => ({ host, bit: 1 << gpu })),
  );
  const size = 2 + random.below(Math.min(gpus.length, MOST_HOSTS * 8) - 1);
  const masks = new Map<number, number>();
  for (let taken = 0; taken < size; taken += 1) {
    const at = taken + random.below(gpus.length - taken);
    const [gpu, other] = [gpus[at], gpus[taken]];
    if (gpu === undefined || other === undefined) continue;
    gpus[at] = other;
    masks.set(gpu.host, (masks.get(gpu.host) ?? 0) | gpu.bit);
  }
  return [...masks].map(([host, mask]) => ({ host, mask })).sort((a, b) => a.host - b.host);
}

const nameOf = (candidate: Candidate): string =>
  candidate.map(({ host, mask }) => `${String(host)}:${String(mask)}`).join("/");
