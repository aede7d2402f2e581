/**
 * @file The best GPUs that can be found with the truth at hand: of all entrants, 10,000 random sets, and what hill-climbing on the truth makes of the best.
 *
 * A third of the random sets are any GPUs, a third any hosts with all that is free there, a third hosts rack by rack. A set is first held
 * against a bound that costs little (the slowest card that it must use), then against its bandwidth without neighbours, then judged. The climb
 * swaps a host of the best set for another, half of the time one at the fullest link; it keeps what is faster and ends after `PATIENCE` swaps
 * in vain. Cost: 0.2 to 2 ms a judged set.
 */

import type { Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { lowestBits } from "../../../lib/bits.ts";
import { shuffled, type Random } from "../../../lib/random.ts";
import type { FabricField } from "./field.ts";
import { takenFrom, type FabricState } from "./states.ts";

export interface OracleEffort {
  readonly randomSets: number;
  /** Swaps in vain before the climb ends. */
  readonly patience: number;
}

export interface Best {
  readonly pick: Candidate;
  readonly gbs: number;
}

export function oracle(
  { truth, racks }: FabricField,
  state: FabricState,
  options: OracleEffort & { readonly entrants: readonly Candidate[]; readonly random: Random },
): Best {
  const { freeMasks, gpus, neighbours } = state;
  const { random, randomSets, patience, entrants } = options;
  let best: Best = { pick: [], gbs: 0 };
  const enter = (pick: Candidate): boolean => {
    if (neighbours.length > 0 && truth.gbs(pick) <= best.gbs) return false;
    const gbs = truth.gbs(pick, neighbours);
    if (gbs <= best.gbs) return false;
    best = { pick, gbs };
    return true;
  };
  for (const pick of entrants) enter(pick);
  for (let at = 0; at < randomSets; at += 1) {
    const pick = randomSet(at % KINDS, { freeMasks, gpus, racks, random });
    if (truth.mostGbs(pick) > best.gbs) enter(pick);
  }
  for (let inVain = 0; inVain < patience;) {
    const pick = swapped(best.pick, { freeMasks, gpus, random });
    const isWorth = pick !== undefined && truth.mostGbs(pick) > best.gbs;
    inVain = isWorth && enter(pick) ? 0 : inVain + 1;
  }
  return best;
}

const KINDS = 3;

interface Ground {
  readonly freeMasks: readonly number[];
  readonly gpus: number;
  readonly random: Random;
}

export function randomSet(
  kind: number,
  { freeMasks, gpus, racks, random }: Ground & Pick<FabricField, "racks">,
): Candidate {
  if (kind === 0) return anyGpus({ freeMasks, gpus, random });
  const order =
    kind === 1
      ? shuffled([...freeMasks.keys()], random)
      : shuffled(racks, random).flatMap((hosts) => shuffled(hosts, random));
  // Whole hosts first: one GPU on a host leaves the rest one card.
  const byFree = order.filter((host) => popCount(freeMasks[host] ?? 0) >= wholeOf(freeMasks));
  return takenFrom(freeMasks, [...byFree, ...order.filter((host) => !byFree.includes(host))], gpus);
}

const wholeOf = (freeMasks: readonly number[]): number =>
  freeMasks.reduce((most, mask) => Math.max(most, popCount(mask)), 0);

function anyGpus({ freeMasks, gpus, random }: Ground): Candidate {
  const all = freeMasks.flatMap((mask, host) => {
    const own: { host: number; mask: number }[] = [];
    for (let rest = mask; rest !== 0; rest &= rest - 1) own.push({ host, mask: rest & -rest });
    return own;
  });
  const masks = new Map<number, number>();
  for (const { host, mask } of shuffled(all, random).slice(0, gpus))
    masks.set(host, (masks.get(host) ?? 0) | mask);
  return [...masks].map(([host, mask]) => ({ host, mask })).sort((a, b) => a.host - b.host);
}

/** One host or several given up for others; undefined where no other has room. */
function swapped(pick: Candidate, { freeMasks, random }: Ground): Candidate | undefined {
  const leaving = new Set(
    shuffled([...pick.keys()], random).slice(0, 1 + random.below(MOST_SWAPPED)),
  );
  const kept = pick.filter((_, at) => !leaving.has(at));
  let open = pick.reduce((sum, { mask }, at) => sum + (leaving.has(at) ? popCount(mask) : 0), 0);
  const used = new Map(kept.map(({ host, mask }) => [host, mask]));
  const gone = new Set([...leaving].map((at) => pick[at]?.host));
  const order = shuffled([...freeMasks.keys()], random)
    .filter((host) => !gone.has(host) && !used.has(host) && freeMasks[host] !== 0)
    .sort((a, b) => popCount(freeMasks[b] ?? 0) - popCount(freeMasks[a] ?? 0));
  for (const host of order) {
    if (open === 0) break;
    const mask = lowestBits(freeMasks[host] ?? 0, open);
    open -= popCount(mask);
    used.set(host, mask);
  }
  if (open > 0) return undefined;
  return [...used].map(([host, mask]) => ({ host, mask })).sort((a, b) => a.host - b.host);
}

const MOST_SWAPPED = 3;
