/**
 * @file How jobs that share a host's network card slow each other down, and the score of a pick that counts its neighbours.
 *
 * The model. A gang over several hosts sends through the card of each of them; in a ring each card carries the gang's whole bus bandwidth.
 * A card carries at most its capacity C, the most that one gang reaches through it. If the bandwidths of the gangs on a card when alone sum
 * to D > C, each gets the part C / D of its own, and a gang runs at the pace of its most crowded card:
 *
 *     rate = gbs · min over its hosts of min(1, C / D)
 *
 * A gang on one host uses no card. The cluster's gain by a pick while its neighbours run is the pick's own rate plus the changes of theirs
 * (none is positive). A running gang is, on average, through half of its time, so it is a neighbour for half of the newcomer's; the score
 * of a pick is the mean of that gain and of its bandwidth alone. (The gain by itself is short-sighted: picks that spare neighbours that leave
 * soon cost more than they bring, see docs/benchmarks.md.)
 *
 * A future neighbour counts too: a gang that finds no host for itself has to share cards. The rest after a pick is worth the mean, over all
 * sizes of gang that some host could hold, of the best remaining intra-host bandwidth (0 where no host has so many free); the pick's part
 * of that is subtracted from its score, by `NEXT_SHARE`.
 * Cost: O(shares of the pick and of the neighbours that meet it, and sizes · shares).
 */

import type { BandwidthDomain, BandwidthPredictor, Candidate } from "./bandwidth-port.ts";
import { fullMask } from "../../lib/bits.ts";
import { allOptions, optionsOf, type HostOptions } from "./host-options.ts";

/** A gang that runs. */
export interface Neighbour {
  readonly shares: Candidate;
  /** Its bandwidth if it were alone. */
  readonly gbs: number;
}

/** Most that the card of a host carries, GB/s. */
export type CardCapacity = (host: number) => number;

export interface Street {
  readonly neighbours: readonly Neighbour[];
  readonly capacityOf: CardCapacity;
}

/** What is there for a pick and for the gang after it. */
export interface Ground {
  readonly domain: BandwidthDomain;
  /** By host of the domain. */
  readonly freeMasks: readonly number[];
  /** Where racks matter: what is left of a candidate's bandwidth beside the gangs that leave its racks (rack-traffic.ts). */
  readonly partOf?: (candidate: Candidate) => number;
}

/** Scores for `PickQuestion.score`; without `ground` no gang is expected to come. */
export function scoreAmong(
  street: Street,
  ground?: Ground,
): (candidate: Candidate, predictedGbs: number) => number {
  const gainOf = gainAmong(street);
  const lossOf = ground === undefined ? () => 0 : nextLoss(ground);
  return (candidate, predictedGbs) => {
    const gbs = predictedGbs * (ground?.partOf?.(candidate) ?? 1);
    return (
      NEIGHBOURLY_SHARE * gainOf(candidate, gbs) +
      (1 - NEIGHBOURLY_SHARE) * gbs -
      NEXT_SHARE * lossOf(candidate)
    );
  };
}

/**
 * Of its best bandwidth, what a pick keeps at least when it spares its neighbours: what the model of cards says that they gain is rougher
 * than what the gang itself is predicted to have.
 */
export const KEPT_SHARE = 0.9;

/** Of a gang's time, in which its present neighbours still run. */
const NEIGHBOURLY_SHARE = 0.5;
/** As much of the next gang's time again, and half of the gangs are small enough for one host. */
const NEXT_SHARE = 0.25;

/** GB/s that the next gang, if one host can hold it, loses on average by a pick. Not negative. */
function nextLoss({ domain, freeMasks }: Ground): (candidate: Candidate) => number {
  const options = allOptions(domain, freeMasks);
  const most = domain.hosts.reduce((largest, { gpuCount }) => Math.max(largest, gpuCount), 0);
  const sizes = Array.from({ length: Math.max(0, most - 1) }, (_, at) => at + 2);
  /** For each size the hosts that can hold it, best first. */
  const ranked = sizes.map((size) =>
    options
      .filter(({ free }) => free >= size)
      .sort((a, b) => insideGbs(b, size) - insideGbs(a, size) || a.host - b.host),
  );
  return (candidate) => {
    const masks = new Map(candidate.map(({ host, mask }) => [host, mask]));
    const after = candidate.map(({ host, mask }) =>
      optionsOf(domain, host, (freeMasks[host] ?? 0) & ~mask),
    );
    let lost = 0;
    for (const [at, size] of sizes.entries()) {
      const hosts = ranked[at] ?? [];
      const [best] = hosts;
      if (best === undefined || !masks.has(best.host)) continue;
      const other = hosts.find(({ host }) => !masks.has(host));
      const left = after.reduce(
        (most, each) => Math.max(most, insideGbs(each, size)),
        other === undefined ? 0 : insideGbs(other, size),
      );
      lost += Math.max(0, insideGbs(best, size) - left);
    }
    return lost / Math.max(1, sizes.length);
  };
}

/** 0 where it has too few GPUs, or nothing was measured. */
const insideGbs = ({ free, gbs }: HostOptions, size: number): number =>
  free >= size ? (gbs[size] ?? 0) : 0;

/** What the cluster gains by a pick while all its neighbours run. */
function gainAmong(street: Street): (candidate: Candidate, predictedGbs: number) => number {
  const { neighbours, capacityOf } = street;
  const demand = demandOf(neighbours);
  const byHost = new Map<number, Neighbour[]>();
  for (const neighbour of neighbours) {
    if (!usesCards(neighbour.shares)) continue;
    for (const { host } of neighbour.shares) {
      const there = byHost.get(host);
      if (there === undefined) byHost.set(host, [neighbour]);
      else there.push(neighbour);
    }
  }
  return (candidate, predictedGbs) => {
    if (!usesCards(candidate)) return predictedGbs;
    const touched = new Set<number>(candidate.map(({ host }) => host));
    const met = new Set<Neighbour>();
    for (const host of touched) for (const one of byHost.get(host) ?? []) met.add(one);
    if (met.size === 0)
      return rateOf(candidate, predictedGbs, { demand, capacityOf, more: predictedGbs, touched });
    let score = rateOf(candidate, predictedGbs, {
      demand,
      capacityOf,
      more: predictedGbs,
      touched,
    });
    for (const { shares, gbs } of met) {
      const before = rateOf(shares, gbs, { demand, capacityOf, more: 0, touched });
      score += rateOf(shares, gbs, { demand, capacityOf, more: predictedGbs, touched }) - before;
    }
    return score;
  };
}

/** What each of these gangs really gets beside the others, in order. */
export function ratesOf({ neighbours, capacityOf }: Street): readonly number[] {
  const demand = demandOf(neighbours);
  const none = new Set<number>();
  return neighbours.map(({ shares, gbs }) =>
    rateOf(shares, gbs, { demand, capacityOf, more: 0, touched: none }),
  );
}

/** By host: bandwidths of all gangs on its card if each were alone. */
function demandOf(neighbours: readonly Neighbour[]): ReadonlyMap<number, number> {
  const demand = new Map<number, number>();
  for (const { shares, gbs } of neighbours) {
    if (!usesCards(shares)) continue;
    for (const { host } of shares) demand.set(host, (demand.get(host) ?? 0) + gbs);
  }
  return demand;
}

const usesCards = (candidate: Candidate): boolean => candidate.length > 1;

interface Cards {
  readonly demand: ReadonlyMap<number, number>;
  readonly capacityOf: CardCapacity;
  /** What a newcomer would add on the touched hosts. */
  readonly more: number;
  readonly touched: ReadonlySet<number>;
}

function rateOf(
  shares: Candidate,
  gbs: number,
  { demand, capacityOf, more, touched }: Cards,
): number {
  if (!usesCards(shares)) return gbs;
  let part = 1;
  for (const { host } of shares) {
    const wanted = (demand.get(host) ?? 0) + (touched.has(host) ? more : 0);
    if (wanted > 0) part = Math.min(part, capacityOf(host) / wanted);
  }
  return gbs * part;
}

/** The memory of a pure function. */
const known = new WeakMap<BandwidthPredictor, readonly number[]>();

/**
 * Capacities by the model itself: of each host what all its GPUs and all of one other host are predicted to reach together, at best
 * over the `PARTNERS` hosts after it (round the list). Infinite for the only host of a domain. One batch, then remembered.
 */
export function cardCapacities(predictor: BandwidthPredictor): CardCapacity {
  const capacities = known.get(predictor) ?? predictedCapacities(predictor);
  known.set(predictor, capacities);
  return (host) => capacities[host] ?? Infinity;
}

const PARTNERS = 3;

function predictedCapacities(predictor: BandwidthPredictor): readonly number[] {
  const { hosts } = predictor.domain;
  const whole = (host: number) => ({ host, mask: fullMask(hosts[host]?.gpuCount ?? 0) });
  const capacities = hosts.map(() => (hosts.length < 2 ? Infinity : 0));
  const pairs: (readonly [number, number])[] = [];
  for (const host of hosts.keys())
    for (let step = 1; step <= Math.min(PARTNERS, hosts.length - 1); step += 1) {
      const other = (host + step) % hosts.length;
      pairs.push(host < other ? [host, other] : [other, host]);
    }
  const answers = predictor.predict(pairs.map(([a, b]) => [whole(a), whole(b)]));
  for (const [at, pair] of pairs.entries())
    for (const host of pair) capacities[host] = Math.max(capacities[host] ?? 0, answers[at] ?? 0);
  return capacities;
}
