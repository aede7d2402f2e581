/**
 * @file The paper's way: a gang is put together greedily, then improved by moving GPUs between hosts while that makes it cheaper. A rival.
 *
 * Greedy: from a first host on, the host whose GPUs add least cost per GPU, all that it has. Swaps: of each pair of a host that
 * is used and one that has room, as many GPUs as go from the first to the second, wherever that lowers the cost; until
 * no pair does. Stronger than the paper says, so that the comparison is fair: it starts again from every other host, those with
 * most to give first, as long as `mayGoOn` of the work done (pairs and hosts looked at), and the best gang of all starts wins.
 * It keeps shape and watts; ties in the fleet's order. Cost: O(hosts²) a start.
 */

import { byCodeUnit } from "../../../domain/values/ids.ts";
import type { HostGpus } from "../../../domain/lease/lease.ts";
import { sharesOf } from "../../../scheduling/placement/host-kind.ts";
import { freeOf, gpusWithinAll } from "../../../scheduling/placement/parts.ts";
import type {
  PlaceDemand,
  PlaceHost,
  PlacePolicy,
} from "../../../scheduling/placement/place-policy.ts";
import {
  partWeights,
  type FleetSpread,
  type PerLevel,
} from "../../../scheduling/placement/spread.ts";
import { thriftiest } from "../../../scheduling/placement/thriftiest.ts";
import { BUDGETS, isWithinWatts } from "../../../scheduling/placement/watts.ts";

interface SwapOptions {
  /** Whether it may start again after so much work. */
  readonly mayGoOn: (work: number) => boolean;
}

/** About what a decision can afford. */
const DEFAULT_SWAPS: SwapOptions = Object.freeze({
  mayGoOn: (work: number) => work < 100_000,
});

export const greedySwaps =
  ({ mayGoOn }: SwapOptions = DEFAULT_SWAPS): PlacePolicy =>
  (demand, hosts, ports) => {
    const usable = hosts
      .filter(({ at, freeMask }) => freeMask !== 0 && (!demand.isSameFabric || at.hasFabric))
      .sort((a, b) => a.at.order - b.at.order);
    let work = hosts.length;
    let best: Draft | undefined;
    for (const first of startsOf(usable, demand)) {
      if (best !== undefined && !mayGoOn(work)) break;
      const alike = usable.filter(({ at }) => at.gpuType === first.at.gpuType);
      const draft = openDraft(demand, alike, ports.spread);
      const isWhole = build(draft, first);
      if (isWhole) improve(draft, () => best === undefined || mayGoOn(work + draft.work));
      work += draft.work;
      if (!isWhole || !isWithinWatts(demand.wattsLeft, hosts, gpusOf(draft))) continue;
      if (best === undefined || draft.cost < best.cost - EPSILON) best = draft;
    }
    if (best !== undefined) return { gpus: gpusOf(best), candidates: work };
    const thrifty = thriftiest(demand, hosts, ports);
    return { ...thrifty, candidates: work + thrifty.candidates };
  };

/** Costs are sums of some hundred terms. */
const EPSILON = 1e-9;

function startsOf(hosts: readonly PlaceHost[], { gpus }: PlaceDemand): readonly PlaceHost[] {
  const use = (host: PlaceHost): number => Math.min(gpus, freeOf(host));
  return [...hosts].sort(
    (a, b) => use(b) - use(a) || freeOf(a) - freeOf(b) || a.at.order - b.at.order,
  );
}

interface Draft {
  readonly demand: PlaceDemand;
  readonly hosts: readonly PlaceHost[];
  readonly weights: PerLevel;
  /** GPUs taken, by place in `hosts`. */
  readonly taken: number[];
  /** GPUs taken by rack, cluster and site. */
  readonly used: Readonly<Record<"rack" | "cluster" | "site", Map<number, number>>>;
  open: number;
  cost: number;
  work: number;
}

function openDraft(demand: PlaceDemand, hosts: readonly PlaceHost[], spread: FleetSpread): Draft {
  return {
    demand,
    hosts,
    weights: partWeights(spread, hosts[0]?.at.gpuType ?? "", demand.gpus),
    taken: hosts.map(() => 0),
    used: { rack: new Map(), cluster: new Map(), site: new Map() },
    open: demand.gpus,
    cost: 0,
    work: 0,
  };
}

/** Adds hosts until the gang is whole; false when it cannot be. */
function build(draft: Draft, first: PlaceHost): boolean {
  put(draft, draft.hosts.indexOf(first), Math.min(draft.open, freeOf(first)));
  while (draft.open > 0) {
    if (draft.demand.isSameHost) return false;
    let winner = -1;
    let least = Infinity;
    draft.work += draft.hosts.length;
    for (let at = 0; at < draft.hosts.length; at += 1) {
      const gpus = Math.min(draft.open, roomOf(draft, at));
      if (gpus <= 0) continue;
      const perGpu = addedCost(draft, at, gpus) / gpus;
      if (perGpu >= least - EPSILON) continue;
      winner = at;
      least = perGpu;
    }
    if (winner < 0) return false;
    put(draft, winner, Math.min(draft.open, roomOf(draft, winner)));
  }
  return true;
}

/** GPUs that the host could give beyond what it gives. */
function roomOf({ demand, hosts, taken, used }: Draft, place: number): number {
  const host = hosts[place];
  if (host === undefined) return 0;
  const { at } = host;
  const isOpen =
    (used.cluster.get(at.cluster) ?? 0) > 0 || countOf(used.cluster) < clustersOf(demand);
  if (!isOpen || (demand.isSameHost && taken[place] === 0)) return 0;
  const drawn = Math.max(
    ...BUDGETS.map((level) => (demand.wattsLeft?.[level] ? (used[level].get(at[level]) ?? 0) : 0)),
  );
  return Math.min(freeOf(host) - (taken[place] ?? 0), gpusWithinAll(at, demand.wattsLeft) - drawn);
}

const clustersOf = ({ maxClusters, isSameFabric }: PlaceDemand): number =>
  isSameFabric ? 1 : maxClusters;

function countOf(used: ReadonlyMap<number, number>): number {
  let count = 0;
  for (const gpus of used.values()) if (gpus > 0) count += 1;
  return count;
}

/** Takes GPUs of a host, or gives them back when `gpus` is negative. */
function put(draft: Draft, place: number, gpus: number): void {
  const host = draft.hosts[place];
  if (host === undefined) return;
  const { used } = draft;
  draft.cost += addedCost(draft, place, gpus);
  for (const level of BUDGETS)
    used[level].set(host.at[level], (used[level].get(host.at[level]) ?? 0) + gpus);
  draft.taken[place] = (draft.taken[place] ?? 0) + gpus;
  draft.open -= gpus;
}

/** By how much `put` would raise the cost. */
function addedCost(draft: Draft, place: number, gpus: number): number {
  const host = draft.hosts[place];
  if (host === undefined) return 0;
  const { at, freeMask } = host;
  const { domains, numaNodes } = sharesOf(at.kind, freeMask);
  const before = draft.taken[place] ?? 0;
  const after = before + gpus;
  const { weights, used } = draft;
  let added =
    weights.domain * ((domains[after] ?? 0) - (domains[before] ?? 0)) +
    weights.numa * ((numaNodes[after] ?? 0) - (numaNodes[before] ?? 0)) +
    weights.host * (Math.sign(after) - Math.sign(before));
  for (const level of BUDGETS) {
    const held = used[level].get(at[level]) ?? 0;
    added += weights[level] * (Math.sign(held + gpus) - Math.sign(held));
  }
  return added;
}

/** Moves GPUs from host to host as long as that makes the gang cheaper. */
function improve(draft: Draft, mayGoOn: () => boolean): void {
  let isBetter = true;
  while (isBetter && mayGoOn()) {
    isBetter = false;
    for (let from = 0; from < draft.hosts.length; from += 1) {
      for (let to = 0; to < draft.hosts.length && draft.taken[from] !== 0; to += 1) {
        if (to !== from && move(draft, from, to)) isBetter = true;
      }
    }
  }
}

function move(draft: Draft, from: number, to: number): boolean {
  draft.work += 1;
  const before = draft.cost;
  const held = draft.taken[from] ?? 0;
  put(draft, from, -held);
  const gpus = Math.min(held, roomOf(draft, to));
  if (gpus > 0) put(draft, to, gpus);
  if (gpus < held) put(draft, from, held - gpus);
  if (gpus > 0 && draft.cost < before - EPSILON) return true;
  if (gpus > 0) put(draft, to, -gpus);
  put(draft, from, held - (draft.taken[from] ?? 0));
  draft.cost = before;
  return false;
}

function gpusOf({ hosts, taken }: Draft): readonly HostGpus[] {
  return hosts
    .flatMap(({ at, freeMask }, place): readonly HostGpus[] => {
      const mask = sharesOf(at.kind, freeMask).masks[taken[place] ?? 0] ?? 0;
      return mask === 0 ? [] : [{ host: at.host, mask }];
    })
    .sort((a, b) => byCodeUnit(a.host, b.host));
}
