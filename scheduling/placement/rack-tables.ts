/**
 * @file The tables of racks: the cheapest way to take any number of GPUs from the hosts of one rack.
 *
 * A table depends on the kinds of hosts in the rack and the free GPUs on each, not on the rack itself. Most racks of a fleet are alike, and
 * few change from one cycle to the next, so tables are kept under that key, as a memo of a pure function.
 * Cost: O(GPUs of the rack · GPUs of a host) for a new key, O(hosts of the rack) for a known one.
 */

import { foldCovers, openedCover, type Cover } from "./cover.ts";
import { sharesOf } from "./host-kind.ts";
import type { RackPart } from "./parts.ts";
import type { PlaceHost } from "./place-policy.ts";
import type { FleetSpread, PerLevel } from "./spread.ts";

/** By content. */
export type RackTables = Map<string, RackTable>;

export interface RackTable {
  readonly cover: Omit<Cover, "take">;
  /** The GPUs of each entry: masks of hosts, by their place in the rack. */
  readonly masksFor: (gpus: number) => readonly HostMask[];
  /** Entries that were looked at. */
  readonly work: number;
}

export interface HostMask {
  readonly at: number;
  readonly mask: number;
}

const MOST_GANGS = 64;
const MOST_TABLES = 4_096;

const fleets = new WeakMap<FleetSpread, Map<string, RackTables>>();

/** Tables of gangs of one size and type have the same weights. */
export function rackTablesFor(spread: FleetSpread, gpuType: string, gpus: number): RackTables {
  const gangs = fleets.get(spread) ?? new Map<string, RackTables>();
  fleets.set(spread, gangs);
  const key = `${gpus} ${gpuType}`;
  const known = gangs.get(key);
  if (known !== undefined) return known;
  if (gangs.size >= MOST_GANGS) gangs.clear();
  const tables: RackTables = new Map();
  gangs.set(key, tables);
  return tables;
}

export interface RackGang {
  readonly gpus: number;
  readonly weights: PerLevel;
  readonly rackTables: RackTables;
}

/** At least `least` and at most the gang's GPUs out of the rack. */
export function rackTable(part: RackPart, least: number, gang: RackGang): RackTable {
  const { rackTables } = gang;
  const most = Math.min(part.most, gang.gpus);
  let key = `${most} ${least} ${part.free}`;
  for (const { at, freeMask } of part.hosts) key += ` ${at.kind.number} ${freeMask}`;
  const known = rackTables.get(key);
  if (known !== undefined) return known;
  if (rackTables.size >= MOST_TABLES) rackTables.clear();
  const table = foldRack(part, { least, most }, gang);
  rackTables.set(key, table);
  return table;
}

function foldRack(
  { hosts, free }: RackPart,
  band: { readonly least: number; readonly most: number },
  { weights }: RackGang,
): RackTable {
  const taken: HostMask[] = [];
  const covers = hosts.map((host, at) =>
    hostCover(host, weights, (mask) => {
      taken.push({ at, mask });
    }),
  );
  const { cover, work } = foldCovers(covers, band);
  const { take, ...opened } = openedCover(cover, {
    cost: weights.rack,
    tieOf: (gpus) => rackTie(free, gpus),
  });
  return {
    cover: opened,
    masksFor: (gpus) => {
      take(gpus);
      return taken.splice(0);
    },
    work,
  };
}

function hostCover(
  { at: { kind, gpuCount }, freeMask }: PlaceHost,
  weights: PerLevel,
  noteMask: (mask: number) => void,
): Cover {
  const { free, masks, domains, numaNodes } = sharesOf(kind, freeMask);
  const cost = new Float64Array(free + 1);
  const tie = new Float64Array(free + 1);
  for (let gpus = 1; gpus <= free; gpus += 1) {
    const parts = (domains[gpus] ?? 0) * weights.domain + (numaNodes[gpus] ?? 0) * weights.numa;
    cost[gpus] = parts + weights.host;
    tie[gpus] = hostTie(gpuCount, free, gpus);
  }
  const take = (gpus: number): void => {
    noteMask(masks[gpus] ?? 0);
  };
  return { size: free, least: 0, cost, tie, take };
}

const GPUS_TIE = 256;
const WHOLE_HOST_TIE = 16 * GPUS_TIE;

/** Tie of the GPUs left over in a touched host of `gpuCount` GPUs. */
export function hostTie(gpuCount: number, free: number, gpus: number): number {
  const isBroken = free === gpuCount && gpus < free;
  return (free - gpus) * GPUS_TIE + (isBroken ? WHOLE_HOST_TIE : 0);
}

/** Tie of the GPUs left over in a touched rack. */
export const rackTie = (free: number, gpus: number): number => Math.min(GPUS_TIE - 1, free - gpus);
