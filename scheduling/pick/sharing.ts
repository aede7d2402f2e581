/**
 * @file How jobs that share a host's network card slow each other down, and what a pick is worth when its neighbours count.
 *
 * The model. A gang over several hosts sends through the card of each of them; as rings go, each card carries the gang's whole bus
 * bandwidth. A card carries at most its capacity C, the most that one gang reaches through it. Gangs on a card whose bandwidths when
 * alone sum up to D > C get each the part C / D of theirs, and a gang runs at the pace of its most crowded card:
 *
 *     rate = gbs · min over its hosts of min(1, C / D)
 *
 * A gang on one host uses no card. What the cluster gains by a pick as long as its neighbours run is its own rate plus the changes of theirs
 * (none is positive). A gang that runs is, on average, through half of its time, so it is a neighbour for half of the newcomer's;
 * the score of a pick is the mean of that gain and of its bandwidth alone. (The gain by itself is short-sighted: picks that spare
 * neighbours who leave soon cost more than they bring, see docs/benchmarks.md.) Cost: O(shares of the pick and of those neighbours that meet it).
 */

import type { BandwidthPredictor, Candidate } from "./bandwidth-port.ts";
import { fullMask } from "../../lib/bits.ts";

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

/** Scores for `PickQuestion.score`. */
export function scoreAmong(street: Street): (candidate: Candidate, predictedGbs: number) => number {
  const gainOf = gainAmong(street);
  return (candidate, predictedGbs) =>
    NEIGHBOURLY_SHARE * gainOf(candidate, predictedGbs) + (1 - NEIGHBOURLY_SHARE) * predictedGbs;
}

/** Of a gang's time, in which its present neighbours still run. */
const NEIGHBOURLY_SHARE = 0.5;

/** What the cluster gains by a pick while all its neighbours run. */
export function gainAmong(street: Street): (candidate: Candidate, predictedGbs: number) => number {
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
