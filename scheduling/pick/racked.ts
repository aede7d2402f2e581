/**
 * @file Candidates on strong hosts of few racks, for clusters whose hosts are known to differ.
 *
 * A gang runs at the pace of its weakest host, over the fewest cards that one of its hosts has, and slower the more racks it lies on. So for each
 * strength that hosts have (in steps of `STEP`) and each number of GPUs that a host gives at least, the highest product first, the hosts that are as
 * good are taken rack by rack: in one rack that holds the gang (the `MOST_SINGLE` with least room and as many with most), else racks with
 * most room first and for the rest the one with least room that holds it; where that one would give a single host, also evenly over them. Where racks differ
 * in what they let out, also over the best 2, 3, 4, … of them alone. In a rack hosts with most free GPUs come first, then strong ones, then
 * in order. Without strengths there are none. Cost: O(hosts · log hosts) for each of at most `MOST_BARS` pairs of strength and number.
 */

import type { Candidate } from "./bandwidth-port.ts";
import type { HostOptions } from "./host-options.ts";
import { candidateOf } from "./balanced.ts";
import type { PickQuestion } from "./search.ts";

const STEP = 0.05;
const MOST_SINGLE = 3;
const MOST_BARS = 24;
/** Numbers of best racks that a gang is put over. */
const MOST_BEST = 8;
/** Of all candidates: what a predictor does beside its network follows them. */
const MOST_SHARES = 3_000;

export function rackedCandidates(
  { predictor, gpus, rackTrafficOf }: PickQuestion,
  hosts: readonly HostOptions[],
): readonly Candidate[] {
  const { domain, strengthOf, wayOutOf } = predictor;
  if (strengthOf === undefined) return [];
  const graded = hosts.map((options) => ({
    options,
    rack: domain.hosts[options.host]?.rack ?? "",
    traffic: rackTrafficOf?.(options.host) ?? 0,
    way: wayOutOf?.(options.host) ?? 1,
    grade: Math.round(strengthOf(options.host) / STEP),
  }));
  const found: Candidate[] = [];
  let bars = 0;
  let shares = 0;
  for (const { grade, least } of barsOf(graded, gpus)) {
    const able = graded.filter((one) => one.grade >= grade && one.options.free >= least);
    const room = able.reduce((sum, { options }) => sum + options.free, 0);
    if (room < gpus) continue;
    const own = rackByRack(able, gpus);
    found.push(...own);
    shares += own.reduce((sum, { length }) => sum + length, 0);
    bars += 1;
    if (bars === MOST_BARS || shares > MOST_SHARES) break;
  }
  return found;
}

/** Each strength with each number of GPUs: a gang's pace follows the product, so the highest product comes first. */
function barsOf(graded: readonly Graded[], gpus: number): readonly Bar[] {
  const grades = [...new Set(graded.map(({ grade }) => grade))];
  const most = graded.reduce((largest, { options }) => Math.max(largest, options.free), 1);
  const counts = Array.from({ length: Math.min(most, gpus) }, (_, at) => at + 1);
  return grades
    .flatMap((grade) => counts.map((least) => ({ grade, least })))
    .sort((a, b) => b.grade * b.least - a.grade * a.least || b.least - a.least);
}

interface Bar {
  /** In steps of `STEP`. */
  readonly grade: number;
  readonly least: number;
}

interface Graded {
  readonly options: HostOptions;
  readonly rack: string;
  readonly grade: number;
  /** GB/s out of its rack. */
  readonly traffic: number;
  /** What it lets out, 0 to 1. */
  readonly way: number;
}

interface Rack {
  readonly name: string;
  readonly traffic: number;
  readonly way: number;
  readonly hosts: readonly Graded[];
  readonly room: number;
}

function rackByRack(able: readonly Graded[], gpus: number): readonly Candidate[] {
  const racks = racksOf(able);
  const single = racks.filter(({ room }) => room >= gpus);
  if (single.length > 0) {
    const tight = single.slice(-MOST_SINGLE);
    const wide = single.slice(0, MOST_SINGLE);
    return [...new Set([...tight, ...wide])].map((rack) => filled(rack.hosts, gpus));
  }
  const most = able.reduce((free, { options }) => Math.max(free, options.free), 1);
  const overRacks = over(racks, { gpus, most });
  const quietFirst = [...racks].sort((a, b) => a.traffic - b.traffic);
  return [
    ...overRacks,
    ...(racks.some(({ traffic }) => traffic > 0) ? over(quietFirst, { gpus, most }) : []),
    ...overBest(racks, { gpus, most }),
  ];
}

/** None where all racks let out as much. */
function overBest(racks: readonly Rack[], need: Need): readonly Candidate[] {
  const bestFirst = [...racks].sort((a, b) => b.way - a.way || a.traffic - b.traffic);
  if (bestFirst[0]?.way === bestFirst.at(-1)?.way) return [];
  let room = 0;
  const enough = bestFirst.findIndex((rack) => (room += rack.room) >= need.gpus) + 1;
  return Array.from({ length: Math.min(MOST_BEST, racks.length - enough) }, (_, more) => {
    const best = new Set(bestFirst.slice(0, enough + more));
    return over(
      racks.filter((rack) => best.has(rack)),
      need,
    );
  }).flat();
}

interface Need {
  readonly gpus: number;
  /** Of a host. */
  readonly most: number;
}

/** The first racks, and for the rest the smallest that holds it. */
function over(racks: readonly Rack[], { gpus, most }: Need): readonly Candidate[] {
  const taken: Rack[] = [];
  let open = gpus;
  for (const [at, rack] of racks.entries()) {
    const rest = racks.slice(at);
    const last = rest.filter(({ room }) => room >= open).sort((a, b) => a.room - b.room)[0];
    taken.push(last ?? rack);
    if ((last ?? rack).room >= open) break;
    open -= rack.room;
  }
  const packed = filled(
    taken.flatMap(({ hosts }) => hosts),
    gpus,
  );
  if (open > most) return [packed];
  const first = racks.slice(0, taken.length);
  const isRoom = first.reduce((sum, { room }) => sum + room, 0) >= gpus;
  return [packed, evenly(isRoom ? first : taken, { gpus, most })];
}

/** As many GPUs of each rack as it has room for, in steps of `most`: no rack is left with a single host of a large gang. */
function evenly(racks: readonly Rack[], { gpus, most }: Need): Candidate {
  const rising = [...racks].sort((a, b) => a.room - b.room || (a.name < b.name ? -1 : 1));
  let open = gpus;
  const parts = rising.map(({ hosts, room }, at) => {
    const share = Math.ceil(open / (rising.length - at) / most) * most;
    const part = Math.min(room, share, open);
    open -= part;
    return filled(hosts, part);
  });
  return parts.flat().sort((a, b) => a.host - b.host);
}

/** Most room first; hosts with most free GPUs first. */
function racksOf(able: readonly Graded[]): readonly Rack[] {
  const byName = new Map<string, Graded[]>();
  for (const one of able) {
    const own = byName.get(one.rack);
    if (own === undefined) byName.set(one.rack, [one]);
    else own.push(one);
  }
  return [...byName]
    .map(([name, hosts]) => ({
      name,
      traffic: hosts[0]?.traffic ?? 0,
      way: hosts[0]?.way ?? 1,
      hosts: hosts.sort(
        (a, b) =>
          b.options.free - a.options.free || b.grade - a.grade || a.options.host - b.options.host,
      ),
      room: hosts.reduce((sum, { options }) => sum + options.free, 0),
    }))
    .sort((a, b) => b.room - a.room || (a.name < b.name ? -1 : 1));
}

/** Host after host; the last one gives what is missing. */
function filled(hosts: readonly Graded[], gpus: number): Candidate {
  const counts: number[] = [];
  let open = gpus;
  for (const { options } of hosts) {
    if (open === 0) break;
    const count = Math.min(options.free, open);
    counts.push(count);
    open -= count;
  }
  return candidateOf(
    hosts.slice(0, counts.length).map(({ options }) => options),
    counts,
  );
}
