/**
 * @file The cheapest victims on single hosts: for a gang that a host can hold, which leases to evict there so that it fits.
 *
 * Per host victims are taken by loss per GPU that is gained there until there is room, then those that later ones made unnecessary are
 * spared. Hosts go by loss, then by the fewest GPUs that are given up, then those that keep the weights of what the gang serves, then the latest granted,
 * then the fleet's order.
 * Cost: O(hosts + victims · log victims).
 */

import type { HostId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { hostsOf } from "../capacity/capacity.ts";
import type { PoolHost } from "../capacity/host-pools.ts";
import { fitsOf, type CycleView } from "../admission/feasibility.ts";
import { maskIn } from "../ledger/rules/reservation-index.ts";
import type { Victim, VictimIndex } from "./candidate-index.ts";
import type { VictimChoice } from "./victim-choice.ts";

export interface HostSearch {
  readonly request: PendingRequest;
  readonly wanted: number;
  readonly view: CycleView;
  readonly choice: VictimChoice;
  readonly book: VictimIndex;
  /** Hosts that keep the weights of what the gang serves, where any are known; asked once, where all else is equal. */
  readonly keepers: () => ReadonlySet<HostId> | undefined;
}

/** For each host that could hold the gang, the cheapest victims that make room there; the cheapest host first. */
export function cheapestHosts({
  request,
  wanted,
  view,
  choice,
  book,
  keepers,
}: HostSearch): readonly HostSet[] {
  const sets: HostSet[] = [];
  for (const { type, room } of fitsOf(request, view)) {
    if (room < wanted) continue;
    for (const host of hostsOf(type)) {
      if (wanted > popCount(host.serviceMask)) continue;
      const there = book.byHost.get(host.id);
      if (there === undefined) continue;
      const needed = wanted - popCount(host.freeMask);
      const set =
        needed <= 0
          ? undefined
          : cheapestOn(host, there.filter(choice.allows), { needed, lossOf: choice.lossOf });
      if (set !== undefined) sets.push(set);
    }
  }
  let known: { readonly keepers: ReadonlySet<HostId> | undefined } | undefined;
  const isKept = ({ host }: HostSet): number => {
    known ??= { keepers: keepers() };
    return Number(known.keepers?.has(host.id) ?? false);
  };
  return sets.sort(
    (a, b) =>
      a.lost - b.lost ||
      a.gpus - b.gpus ||
      isKept(b) - isKept(a) ||
      b.newest - a.newest ||
      a.host.at.order - b.host.at.order,
  );
}

interface Need {
  readonly needed: number;
  readonly lossOf: VictimChoice["lossOf"];
}

function cheapestOn(
  host: PoolHost,
  there: readonly Victim[],
  { needed, lossOf }: Need,
): HostSet | undefined {
  const gainOf = ({ lease }: Victim): number =>
    popCount(maskIn(lease.gpus, host.id) & host.serviceMask & ~host.reservedMask);
  const able = there.filter((victim) => gainOf(victim) > 0);
  const perGpu = (victim: Victim): number => lossOf(victim) / Math.min(needed, gainOf(victim));
  if (able.length > 1) able.sort((a, b) => perGpu(a) - perGpu(b) || b.lease.token - a.lease.token);
  const victims = withoutSpare(prefixOf(able, gainOf, needed), gainOf, { needed, lossOf });
  if (victims === undefined) return undefined;
  return {
    host,
    victims,
    lost: victims.reduce((sum, victim) => sum + lossOf(victim), 0),
    gpus: victims.reduce((sum, victim) => sum + victim.gpus, 0),
    newest: victims.reduce((newest, { lease }) => Math.max(newest, lease.token), 0),
  };
}

export interface HostSet {
  readonly host: PoolHost;
  readonly victims: readonly Victim[];
  readonly lost: number;
  readonly gpus: number;
  /** The latest token. */
  readonly newest: number;
}

type GainOf = (victim: Victim) => number;

function prefixOf(
  order: readonly Victim[],
  gainOf: GainOf,
  needed: number,
): readonly Victim[] | undefined {
  let sum = 0;
  for (const [at, victim] of order.entries()) {
    sum += gainOf(victim);
    if (sum >= needed) return order.slice(0, at + 1);
  }
  return undefined;
}

/** Without those that later ones made unnecessary, the costliest first. */
function withoutSpare(
  chosen: readonly Victim[] | undefined,
  gainOf: GainOf,
  { needed, lossOf }: Need,
): readonly Victim[] | undefined {
  if (chosen === undefined) return undefined;
  let left = chosen;
  let sum = chosen.reduce((all, victim) => all + gainOf(victim), 0);
  for (const victim of [...chosen].sort((a, b) => lossOf(b) - lossOf(a))) {
    if (sum - gainOf(victim) < needed) continue;
    sum -= gainOf(victim);
    left = left.filter((other) => other !== victim);
  }
  return left;
}
