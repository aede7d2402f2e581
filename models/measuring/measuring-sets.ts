/**
 * @file Chooses the sets over several hosts to measure: those that decide picks, and others that cover the rest of the space.
 *
 * A model must be right where picks are decided, and everywhere else too (users see predictions, neighbours
 * are weighed, drift is noticed). On hosts of one type the first fifty are all such that picks are decided by: with so few, what a model does not
 * know costs most in picks. Of the further ones, and of several types from the start, the larger part are: on hosts of one type alternatives for
 * every state with a choice (deciding-sets.ts), and when those are known, as of mixed types from the start, such as picks hesitate
 * about (training-sets.ts); more where types are mixed, because there a slow host explains most of everything and its table says so
 * already. The first of the others are those that lower the variance over everything most (measuring-plan.ts). That plan goes to the
 * extremes, and is spent when they are known: then any sets, on hosts of one type first those that differ most from others of
 * their kind. Of a large cluster hosts and racks come first (rack-sets.ts). The kinds alternate, so that a run that stops early has some of each. Measurements over hosts are not used.
 */

import type { BandwidthDomain, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { shuffled, type Random } from "../../lib/random.ts";
import { decidingSets } from "./deciding-sets.ts";
import { candidatePool, keyOf, planBetween } from "./measuring-plan.ts";
import { isLarge, rackSets } from "./rack-sets.ts";
import { trainingSets } from "./training-sets.ts";

/** Of a large cluster, the hosts that sets with some of their GPUs are measured on. */
const FEW_HOSTS = 12;

interface MeasuringNeed {
  readonly count: number;
  readonly random: Random;
  /** Measured already: not again. */
  readonly measured: readonly Candidate[];
  /** Indices of the hosts that may take part; all of the domain when absent. */
  readonly hosts?: readonly number[];
  /** The identity of a set: sets of one name are measured once. Hosts and GPUs when absent. */
  readonly nameOf?: (candidate: Candidate) => string;
}

/** How a number of sets is divided; found on seeds 1 to 6 of the paper's data, see docs/benchmarks.md. */
interface Division {
  /** The first of all sets, all of which picks are decided by: what a small budget loses, it loses in picks. */
  readonly first: number;
  /** Of the further sets, those that picks are decided by. */
  readonly chosen: number;
  /** With so many of the plan known, what is left of the variance is noise. */
  readonly mostPlanned: number;
}

const DIVISION: Readonly<Record<"oneType" | "severalTypes", Division>> = Object.freeze({
  oneType: { first: 50, chosen: 0.6, mostPlanned: 50 },
  severalTypes: { first: 0, chosen: 0.8, mostPlanned: 75 },
});

/** Of so many sets in all, those that picks are decided by. */
const chosenOf = (total: number, { first, chosen }: Division): number =>
  Math.min(total, first) + chosen * Math.max(0, total - first);

export function measuringSets(
  domain: BandwidthDomain,
  { count, random, measured, hosts, nameOf = keyOf }: MeasuringNeed,
): readonly Candidate[] {
  const members = hosts ?? [...domain.hosts.keys()];
  if (isLarge(members)) {
    const racked = rackSets(domain, {
      count,
      random: random.stream("racks"),
      measured,
      hosts: members,
    });
    const few = shuffled(members, random.stream("few hosts"))
      .slice(0, FEW_HOSTS)
      .sort((a, b) => a - b);
    const rest = measuringSets(domain, {
      count: count - racked.length,
      random: random.stream("rest"),
      measured: [...measured, ...racked],
      hosts: few,
      nameOf,
    });
    return inTurn(racked, rest);
  }
  const types = new Set(members.map((host) => domain.hosts[host]?.gpuType));
  const division = DIVISION[types.size > 1 ? "severalTypes" : "oneType"];
  // What was measured counts as divided in the same way: budgets in parts are one budget.
  const formerly = chosenOf(measured.length, division);
  const wanted = Math.round(chosenOf(measured.length + count, division) - formerly);
  const deciding =
    types.size > 1
      ? []
      : decidingSets(domain, {
          hosts: members,
          count: wanted,
          random: random.stream("deciding"),
          measured,
        });
  const among = { nameOf, hosts: members };
  const hopeful = trainingSets(domain, {
    ...among,
    count: wanted - deciding.length,
    random: random.stream("chosen"),
    measured: [...measured, ...deciding],
  });
  const chosen = [...deciding, ...hopeful];
  const { picks: planned } = planBetween(domain, {
    ...among,
    count: Math.min(
      count - chosen.length,
      Math.max(0, Math.round(division.mostPlanned - (measured.length - formerly))),
    ),
    random: random.stream("planned"),
    measured: [...measured, ...chosen],
  });
  const known = new Set([...measured, ...chosen, ...planned].map(nameOf));
  const others = candidatePool(domain, { hosts: members, random: random.stream("any") }).filter(
    (candidate) => !known.has(nameOf(candidate)),
  );
  const left = count - chosen.length - planned.length;
  const ordered = types.size > 1 ? others : unlikeFirst(others);
  return inTurn(chosen, [...planned, ...ordered.slice(0, left)]);
}

/**
 * Over three hosts and more, two GPUs at least on each: there sets of one kind differ most. Two hosts are one ring through two sets of
 * cards, and a host with one GPU leaves all others that one card: a few such sets represent the rest.
 */
function unlikeFirst(candidates: readonly Candidate[]): readonly Candidate[] {
  const isUnlike = (candidate: Candidate): boolean =>
    candidate.length > 2 && candidate.every(({ mask }) => popCount(mask) > 1);
  return [
    ...candidates.filter(isUnlike),
    ...candidates.filter((candidate) => !isUnlike(candidate)),
  ];
}

/** Both lists to their ends, evenly mixed. */
function inTurn<Item>(a: readonly Item[], b: readonly Item[]): readonly Item[] {
  const places = [a, b].flatMap((items, list) =>
    items.map((item, at) => ({ item, list, place: (at + 0.5) / items.length })),
  );
  return places.sort((x, y) => x.place - y.place || x.list - y.list).map(({ item }) => item);
}
