/**
 * @file Chooses sets over hosts of one type so that wherever a pick has a choice, two of the alternatives are known.
 *
 * Each host reaches the network through its own GPUs' cards, so the likely winners of a state of the cluster (a size of request, some
 * GPUs free) are the shapes (GPU counts of the hosts) of its leading class: the host with fewest GPUs has most of them, on the fewest
 * hosts that allow it. Within a class the model can hardly distinguish the shapes, and a few of them read a third less than all
 * similar ones. With two of them measured, a pick need not choose one that was not. So states are drawn and the next shape is
 * the one that the most of them still need, a first alternative before a second (a greedy cover with multiplicities). A class
 * of one shape leaves nothing to choose: it counts a little, for the best of another class has to be weighed against it.
 * Measurements over hosts are not used. Cost: O(STATES · shapes of a class) for the states, then O(shapes) a set.
 * Ties: the shape drawn first.
 */

import type {
  BandwidthDomain,
  Candidate,
  PickShare,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { Random } from "../../lib/random.ts";
import { bestMasks, drawnState, type State } from "./training-sets.ts";

interface DecidingNeed {
  readonly count: number;
  readonly random: Random;
  /** Measured already: their shapes are known. */
  readonly measured: readonly Candidate[];
  /** Indices of the hosts that may take part, of one type. */
  readonly hosts: readonly number[];
}

/** Rare states matter: the worst pick is one of theirs. */
const STATES = 12_000;
/** Alternatives that are to be known, at most. */
const ALTERNATIVES = 2;
/** What a second alternative counts beside the first. */
const SECOND = 0.3;
/** What a class of one shape counts. */
const SINGLE = 0.1;
/** Shapes of a class that are looked at. */
const MOST_KIN = 100;
/** Gains below it are rounding. */
const GAIN_EPSILON = 1e-9;

interface DrawnClass {
  readonly state: State;
  /** Each way by the name of its shape: counts by host of the domain. */
  readonly ways: ReadonlyMap<string, readonly number[]>;
  /** How many of its shapes are known. */
  known: number;
}

interface Shape {
  readonly classes: DrawnClass[];
  /** What knowing it would bring. */
  gain: number;
}

/** Fewer than asked when two alternatives are known everywhere. */
export function decidingSets(domain: BandwidthDomain, need: DecidingNeed): readonly Candidate[] {
  const { count, random, measured, hosts } = need;
  const open = openShapes(domain, hosts, random);
  for (const candidate of measured)
    learn(open, shapeName(candidate.map(({ mask }) => popCount(mask))));
  const bestOf = bestMasks(domain);
  const seats = random.stream("seats");
  const sets: Candidate[] = [];
  while (sets.length < count) {
    const name = mostNeeded(open);
    if (name === undefined) break;
    const classes = open.get(name)?.classes ?? [];
    // Any of the states that need it: so that no host is left out of all sets.
    const { state, ways } = classes[seats.below(classes.length)] ?? {};
    if (state !== undefined)
      sets.push(
        (ways?.get(name) ?? []).flatMap((gpus, host): PickShare[] => {
          const mask = gpus > 0 ? bestOf(host, state, gpus) : undefined;
          return mask === undefined ? [] : [{ host, mask }];
        }),
      );
    learn(open, name);
  }
  return sets;
}

function openShapes(
  domain: BandwidthDomain,
  hosts: readonly number[],
  random: Random,
): Map<string, Shape> {
  const open = new Map<string, Shape>();
  for (let round = 0; round < STATES; round += 1) {
    const state = drawnState(domain, hosts, random.stream(`state ${String(round)}`));
    const drawn: DrawnClass = { state, ways: leadingClass(state), known: 0 };
    for (const name of drawn.ways.keys()) {
      const shape = open.get(name) ?? { classes: [], gain: 0 };
      shape.classes.push(drawn);
      shape.gain += worthOf(drawn);
      open.set(name, shape);
    }
  }
  return open;
}

/** What one more known shape is worth to a state. */
function worthOf({ ways, known }: DrawnClass): number {
  if (known >= Math.min(ALTERNATIVES, ways.size)) return 0;
  return (ways.size === 1 ? SINGLE : 1) * (known === 0 ? 1 : SECOND);
}

function mostNeeded(open: ReadonlyMap<string, Shape>): string | undefined {
  let best: string | undefined;
  let most = GAIN_EPSILON;
  for (const [name, { gain }] of open) {
    if (gain <= most) continue;
    best = name;
    most = gain;
  }
  return best;
}

function learn(open: Map<string, Shape>, name: string): void {
  const shape = open.get(name);
  open.delete(name);
  for (const drawn of shape?.classes ?? []) {
    const before = worthOf(drawn);
    drawn.known += 1;
    const change = worthOf(drawn) - before;
    if (change === 0) continue;
    for (const other of drawn.ways.keys()) {
      const kin = open.get(other);
      if (kin !== undefined) kin.gain += change;
    }
  }
}

/** By the names of their shapes; none where one host holds all, or where all that is free is asked for. */
export function leadingClass({ gpus, freeMasks }: State): ReadonlyMap<string, readonly number[]> {
  const ways = new Map<string, readonly number[]>();
  const hosts = freeMasks
    .map((mask, host) => ({ host, free: popCount(mask) }))
    .filter(({ free }) => free > 0)
    .sort((a, b) => b.free - a.free || a.host - b.host);
  if (hosts.reduce((sum, { free }) => sum + free, 0) <= gpus) return ways;
  for (let fewest = Math.floor(gpus / 2); fewest >= 1; fewest -= 1) {
    const able = hosts.filter(({ free }) => free >= fewest);
    const members = leastMembers(able, gpus, fewest);
    if (members === undefined) continue;
    for (const counts of splits(
      members.map(({ free }) => free),
      { gpus, fewest },
    )) {
      const byHost = freeMasks.map(() => 0);
      for (const [at, { host }] of members.entries()) byHost[host] = counts[at] ?? 0;
      ways.set(shapeName(counts), byHost);
      if (ways.size === MOST_KIN) return ways;
    }
    return ways;
  }
  return ways;
}

interface Able {
  readonly host: number;
  readonly free: number;
}

/** The fewest hosts, two at least, that hold so many GPUs with at least `fewest` on each; those with most free. */
function leastMembers(
  able: readonly Able[],
  gpus: number,
  fewest: number,
): readonly Able[] | undefined {
  for (let size = 2; size <= able.length && size * fewest <= gpus; size += 1) {
    const members = able.slice(0, size);
    if (members.reduce((sum, { free }) => sum + free, 0) >= gpus) return members;
  }
  return undefined;
}

/** Counts that do not rise, each within what is free there (which does not rise either) and at least `fewest`. */
function* splits(
  free: readonly number[],
  { gpus, fewest }: { readonly gpus: number; readonly fewest: number },
  before: readonly number[] = [],
): Generator<readonly number[]> {
  const left = free.length - before.length;
  if (left === 0) {
    if (gpus === 0) yield before;
    return;
  }
  const most = Math.min(
    before.at(-1) ?? Infinity,
    free[before.length] ?? 0,
    gpus - fewest * (left - 1),
  );
  for (let count = most; count >= fewest && count * left >= gpus; count -= 1)
    yield* splits(free, { gpus: gpus - count, fewest }, [...before, count]);
}

const shapeName = (counts: readonly number[]): string => [...counts].sort((a, b) => b - a).join();
