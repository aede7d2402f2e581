/**
 * @file How likely the way out of each rack leaves a gang how much of its bandwidth, learned from sets over several racks.
 *
 * Where switches choose paths by hash, a rack with slow or broken uplinks costs some sets much and others nothing, by the paths that they happen to
 * get. So a rack has no factor but a chance: `s_r(x)`, that it leaves at least the part x of what the set would have in one rack. The slowest rack
 * decides, racks are independent, and no path is known:
 *
 *     P(part ≥ x) = Π s_r(x) over the racks of the set,    expected part = Σ of P(part ≥ x) · STEP over the levels x
 *
 * A slow host and a slow way do not add up: the slower of both decides. So levels above what the weakest host of a set allows count for nothing, and
 * such a set says nothing of racks there.
 * Which rack held up a slow set is not seen. Expectation maximisation (the noisy-or of Pearl 1988, §4.3.2) gives each of its racks a part of the blame by what
 * its other sets show; every rack starts as the usual one, as if it had been in `PRIOR_SETS` more sets. Where sets over as many racks are alike there is nothing
 * by chance, and no answer. Cost: O(levels · `ROUNDS` · racks in sets).
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";

/** Plain data: it is kept with the parameters. Each list is `s(x)` by level, 0 to 1, falling. */
export interface RackWays {
  readonly racks: Readonly<Record<string, readonly number[]>>;
  /** Of a rack that was not measured. */
  readonly usual: readonly number[];
}

/** A set of whole hosts over several racks. */
export interface WaySet {
  readonly racks: readonly string[];
  readonly hosts: number;
  /** What is left of its bandwidth; about 1 of a set that loses nothing. */
  readonly part: number;
  /** What its weakest host allows: 0 to 1. */
  readonly most: number;
}

const STEP = 0.1;
/** Half a step below each tenth from 0.2 on: the lowest tenth is left to every set. */
const LEVELS: readonly number[] = Array.from({ length: 9 }, (_, at) => (at + 1.5) * STEP);
const LOWEST = STEP;
const PRIOR_SETS = 2;
const ROUNDS = 40;
const LEAST_SETS = 12;
/** Sets of sound hosts over as many racks and hosts: with fewer there is no telling what is usual. */
const LEAST_ALIKE = 3;
/** A set is held up that has so much less than the middle one of those; this share of all shows that it is no accident. */
const HELD_UP = 0.1;
const LEAST_HELD_UP = 0.05;
/** Of hosts, what is sound; and by which part a set must be slower than its weakest host for that to be the racks' doing. */
const SOUND = 0.95;

/** Undefined where there are few sets, or alike ones are as fast. */
export function rackWays(sets: readonly WaySet[]): RackWays | undefined {
  if (heldUp(sets) < LEAST_HELD_UP) return undefined;
  const names = [...new Set(sets.flatMap(({ racks }) => racks))].sort();
  const levels = LEVELS.map((level) => chances(sets, names, level));
  const at = (of: (level: (typeof levels)[number]) => number): readonly number[] =>
    falling(levels.map(of));
  return {
    racks: Object.fromEntries(
      names.map((name) => [name, at(({ failing }) => 1 - (failing.get(name) ?? 0))]),
    ),
    usual: at(({ usual }) => 1 - usual),
  };
}

/** Names of the racks of a set, each once; hosts without a rack are in one. */
export function rackNames({ hosts }: BandwidthDomain, shares: Candidate): readonly string[] {
  const names = new Set<string>();
  for (const { host } of shares) names.add(hosts[host]?.rack ?? "");
  return [...names];
}

/** Of the bandwidth that sound hosts would have in one rack, what a set over these racks has whose weakest host allows `most`: above 0 to `most`. */
export function expectedPart(ways: RackWays, racks: readonly string[], most = 1): number {
  let part = Math.min(most, LOWEST);
  for (const [at, level] of LEVELS.entries()) {
    const step = Math.min(STEP, most - (level - STEP / 2));
    if (step <= 0) break;
    let chance = 1;
    for (const rack of racks) chance *= wayOf(ways, rack)[at] ?? 1;
    part += step * chance;
  }
  return part;
}

const wayOf = ({ racks, usual }: RackWays, rack: string): readonly number[] =>
  Object.hasOwn(racks, rack) ? (racks[rack] ?? usual) : usual;

/** Of the sets of sound hosts, the share of those that are slower than others over as many racks and hosts; 0 where there are few. */
function heldUp(sets: readonly WaySet[]): number {
  const alike = new Map<string, number[]>();
  for (const { racks, hosts, part, most } of sets) {
    const key = `${String(racks.length)}/${String(hosts)}`;
    if (most >= SOUND) alike.set(key, [...(alike.get(key) ?? []), part]);
  }
  const apart = [...alike.values()].flatMap((parts) => {
    if (parts.length < LEAST_ALIKE) return [];
    const middle = parts.sort((a, b) => a - b)[parts.length >> 1] ?? 0;
    return parts.map((part) => middle - part);
  });
  return apart.length < LEAST_SETS
    ? 0
    : apart.filter((less) => less > HELD_UP).length / apart.length;
}

/** How likely each rack, and a usual one, leaves less than `level`. */
function chances(
  all: readonly WaySet[],
  names: readonly string[],
  level: number,
): { readonly failing: ReadonlyMap<string, number>; readonly usual: number } {
  // None at the highest level, which so says what the one below it says: between both lies what noise does.
  const sets = all.filter(({ most }) => most * SOUND > level);
  const members = sets.reduce((sum, { racks }) => sum + racks.length, 0);
  let usual = 0.5;
  for (let round = 0; round < ROUNDS; round += 1) {
    const blame = blamed(sets, level, () => usual);
    usual = [...blame.values()].reduce((sum, one) => sum + one, 0) / Math.max(1, members);
  }
  const counts = new Map<string, number>();
  for (const { racks } of sets)
    for (const rack of racks) counts.set(rack, (counts.get(rack) ?? 0) + 1);
  let failing = new Map(names.map((name) => [name, usual]));
  for (let round = 0; round < ROUNDS; round += 1) {
    const blame = blamed(sets, level, (rack) => failing.get(rack) ?? usual);
    failing = new Map(
      names.map((name) => [
        name,
        ((blame.get(name) ?? 0) + PRIOR_SETS * usual) / ((counts.get(name) ?? 0) + PRIOR_SETS),
      ]),
    );
  }
  return { failing, usual };
}

/** By rack, in how many of its sets it is expected to have left less than `level`. */
function blamed(
  sets: readonly WaySet[],
  level: number,
  failingOf: (rack: string) => number,
): ReadonlyMap<string, number> {
  const blame = new Map<string, number>();
  for (const { racks, part } of sets) {
    if (part >= level) continue;
    let passing = 1;
    for (const rack of racks) passing *= 1 - failingOf(rack);
    if (passing === 1) continue;
    for (const rack of racks)
      blame.set(rack, (blame.get(rack) ?? 0) + failingOf(rack) / (1 - passing));
  }
  return blame;
}

function falling(values: readonly number[]): readonly number[] {
  let least = 1;
  return values.map((value) => (least = Math.min(least, value)));
}
