/**
 * @file What each way of handing out a cluster's GPUs leaves usable: the buddy allocator, best fit by host, and the product's compact pick.
 *
 * One stream of arrivals and departures for all (seeded): gangs of 1 to 16 GPUs, mostly small, on 16 hosts of 8 in racks of 4. A gang that a way
 * cannot place is dropped there. Locality: hosts that a gang spans beyond the fewest possible.
 */

import { randomFrom } from "../../lib/random.ts";
import { buddyAllocator } from "./buddy-allocator.ts";
import { barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";

const HOSTS = 16;
const HOST_GPUS = 8;
const EVENTS = 20_000;
const SIZES = [1, 1, 1, 2, 2, 3, 4, 4, 5, 6, 8, 8, 12, 16] as const;

interface Way {
  readonly name: string;
  readonly take: (count: number) => readonly number[] | undefined;
  readonly give: (gpus: readonly number[]) => void;
}

interface Tally {
  readonly refused: number;
  readonly refusedWithRoom: number;
  readonly extraHosts: number;
  readonly placed: number;
  readonly wrong: number;
  readonly utilisation: number;
}

export function measureFragmentation(seed: number): {
  readonly bars: readonly Bar[];
  readonly table: BenchTable;
} {
  const racks = Array.from({ length: HOSTS / 4 }, () => Array.from({ length: 4 }, () => HOST_GPUS));
  const buddy = buddyAllocator(racks);
  const ways: readonly Way[] = [
    { name: "buddy (appendix A)", take: buddy.take, give: buddy.give },
    byHosts("best fit", (free, count) => bestFit(free, count)),
    byHosts("compact (ours)", (free, count) => compact(free, count)),
  ];
  const tallies = ways.map((way) => ({ way, tally: play(way, seed) }));
  const wrong = tallies.reduce((sum, { tally }) => sum + tally.wrong, 0);
  return {
    bars: [
      barOf({
        id: "buddy-wrong-counts",
        unit: "gangs",
        target: exactly(0),
        got: wrong,
        note: "gangs that got another number of GPUs than they asked for, any way",
      }),
      barOf({
        id: "buddy-refused-with-room",
        unit: "%",
        target: REPORTED,
        got: 100 * (tallies[0]?.tally.refusedWithRoom ?? NaN),
      }),
    ],
    table: {
      title: `Handing out ${HOSTS} hosts of ${HOST_GPUS} GPUs, ${EVENTS} events, the same for all`,
      columns: ["WAY", "PLACED", "REFUSED", "WITH ROOM", "HOSTS TOO MANY", "BUSY"],
      rows: tallies.map(({ way, tally }) => [
        way.name,
        String(tally.placed),
        `${(100 * tally.refused).toFixed(1)} %`,
        `${(100 * tally.refusedWithRoom).toFixed(1)} %`,
        tally.extraHosts.toFixed(3),
        `${(100 * tally.utilisation).toFixed(1)} %`,
      ]),
    },
  };
}

function play(way: Way, seed: number): Tally {
  const random = randomFrom(seed, "fragmentation");
  const held: (readonly number[])[] = [];
  let busy = 0;
  let [asked, placed, refused, refusedWithRoom, extraHosts, wrong, busySum] = [0, 0, 0, 0, 0, 0, 0];
  for (let event = 0; event < EVENTS; event += 1) {
    const [isArrival, size, leaver] = [
      random.unit() < 0.62,
      random.below(SIZES.length),
      random.unit(),
    ];
    busySum += busy;
    if (isArrival) {
      const count = SIZES[size] ?? 1;
      asked += 1;
      const gpus = way.take(count);
      if (gpus === undefined) {
        refused += 1;
        if (HOSTS * HOST_GPUS - busy >= count) refusedWithRoom += 1;
        continue;
      }
      placed += 1;
      if (new Set(gpus).size !== count) wrong += 1;
      const hosts = new Set(gpus.map((gpu) => Math.floor(gpu / HOST_GPUS))).size;
      extraHosts += hosts - Math.ceil(count / HOST_GPUS);
      held.push(gpus);
      busy += count;
    } else if (held.length > 0) {
      const [left = []] = held.splice(Math.floor(leaver * held.length), 1);
      way.give(left);
      busy -= left.length;
    }
  }
  return {
    placed,
    wrong,
    refused: refused / asked,
    refusedWithRoom: refusedWithRoom / asked,
    extraHosts: extraHosts / Math.max(1, placed),
    utilisation: busySum / EVENTS / (HOSTS * HOST_GPUS),
  };
}

type Choose = (free: readonly number[], count: number) => ReadonlyMap<number, number> | undefined;

/** Ways that look at the counts of free GPUs by host only. */
function byHosts(name: string, choose: Choose): Way {
  const free = Array.from({ length: HOSTS }, (_, host) =>
    Array.from({ length: HOST_GPUS }, (__, gpu) => host * HOST_GPUS + gpu),
  );
  return {
    name,
    take: (count) => {
      const counts = choose(
        free.map(({ length }) => length),
        count,
      );
      if (counts === undefined) return undefined;
      return [...counts].flatMap(([host, taken]) => free[host]?.splice(0, taken) ?? []);
    },
    give: (gpus) => {
      for (const gpu of gpus) free[Math.floor(gpu / HOST_GPUS)]?.push(gpu);
    },
  };
}

/** The host with least room that holds it; larger gangs fill the fullest hosts with room first. */
function bestFit(free: readonly number[], count: number): ReadonlyMap<number, number> | undefined {
  const one = tightest(free, count);
  if (one !== undefined) return new Map([[one, count]]);
  return filled(free, count, (a, b) => a - b);
}

/** The same for one host; larger gangs take the emptiest hosts, the last of them the tightest that does. */
function compact(free: readonly number[], count: number): ReadonlyMap<number, number> | undefined {
  const one = tightest(free, count);
  if (one !== undefined) return new Map([[one, count]]);
  return filled(free, count, (a, b) => b - a);
}

function tightest(free: readonly number[], count: number): number | undefined {
  let chosen: number | undefined;
  for (const [host, room] of free.entries())
    if (room >= count && room < (free[chosen ?? -1] ?? Infinity)) chosen = host;
  return chosen;
}

function filled(
  free: readonly number[],
  count: number,
  order: (a: number, b: number) => number,
): ReadonlyMap<number, number> | undefined {
  const counts = new Map<number, number>();
  const hosts = [...free.keys()]
    .filter((host) => (free[host] ?? 0) > 0)
    .sort((a, b) => order(free[a] ?? 0, free[b] ?? 0) || a - b);
  let left = count;
  for (const host of hosts) {
    const taken = Math.min(left, free[host] ?? 0);
    if (taken > 0) counts.set(host, taken);
    left -= taken;
  }
  return left > 0 ? undefined : counts;
}
