/**
 * @file Which sets over several hosts are measured: some because a pick would hesitate about them, the rest to tell of all others.
 *
 * A model is asked for two things: to be right where picks are decided, and to be right everywhere (a job is told what to expect, neighbours
 * are weighed, drift is noticed). A part of the sets are such as picks hesitate about (training-sets.ts): more where types are mixed,
 * because there a slow host explains most of everything and its table says so already. The first of the others are those that lower
 * the variance over everything most (measuring-plan.ts). That plan goes to the extremes, and is spent when they are known: then any sets,
 * as they come. All come in turn, so that whoever stops early has some of each. Nothing measured over hosts is looked at.
 */

import type { BandwidthDomain, Candidate } from "../domain/bandwidth-port.ts";
import type { Random } from "../lib/random.ts";
import { candidatePool, keyOf, planBetween } from "./measuring-plan.ts";
import { trainingSets } from "./training-sets.ts";

export interface MeasuringNeed {
  readonly count: number;
  readonly random: Random;
  /** Measured already: not again. */
  readonly measured: readonly Candidate[];
  /** Indices of the hosts that may take part; all of the domain when absent. */
  readonly hosts?: readonly number[];
  /** What tells sets apart: sets of one name are measured once. Hosts and GPUs when absent. */
  readonly nameOf?: (candidate: Candidate) => string;
}

/** Of all sets, those that picks hesitate about; found on seeds 1 to 3 of the paper's data, see docs/benchmarks.md. */
const CHOSEN_SHARE = Object.freeze({ oneType: 0.5, severalTypes: 0.8 });
/** With so many known, what is left of the variance is noise. */
const MOST_PLANNED = 75;

export function measuringSets(
  domain: BandwidthDomain,
  { count, random, measured, hosts, nameOf = keyOf }: MeasuringNeed,
): readonly Candidate[] {
  const members = hosts ?? [...domain.hosts.keys()];
  const among = { nameOf, hosts: members };
  const types = new Set(members.map((host) => domain.hosts[host]?.gpuType));
  const share = types.size > 1 ? CHOSEN_SHARE.severalTypes : CHOSEN_SHARE.oneType;
  const chosen = trainingSets(domain, {
    ...among,
    count: Math.round(count * share),
    random: random.stream("chosen"),
    measured,
  });
  const { picks: planned } = planBetween(domain, {
    ...among,
    count: Math.min(count - chosen.length, Math.max(0, MOST_PLANNED - measured.length)),
    random: random.stream("planned"),
    measured: [...measured, ...chosen],
  });
  const known = new Set([...measured, ...chosen, ...planned].map(nameOf));
  const others = candidatePool(domain, { hosts: members, random: random.stream("any") })
    .filter((candidate) => !known.has(nameOf(candidate)))
    .slice(0, count - chosen.length - planned.length);
  return inTurn(chosen, [...planned, ...others]);
}

/** Both lists to their ends, evenly mixed. */
function inTurn<Item>(a: readonly Item[], b: readonly Item[]): readonly Item[] {
  const places = [a, b].flatMap((items, list) =>
    items.map((item, at) => ({ item, list, place: (at + 0.5) / items.length })),
  );
  return places.sort((x, y) => x.place - y.place || x.list - y.list).map(({ item }) => item);
}
