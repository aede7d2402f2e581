/**
 * @file Chooses the GPUs of one host for a given number of them, so that they touch the fewest NVLink domains and NUMA nodes.
 *
 * Fewest domains first, then fewest NUMA nodes; ties go to the GPUs that leave the fewest behind in the touched domains and nodes, so that
 * whole ones stay whole, then to the lowest GPUs. Exact: all sets of NUMA nodes are tried (from five nodes on only the ones with the most
 * free GPUs), and inside a set the largest domains serve best, because domains share no GPU.
 * Computed once for each kind of host and free mask, then kept. Cost of the first time: O(2^nodes · GPUs · domains).
 */

import { popCount } from "../../domain/lease/lease.ts";
import { lowestBits } from "../../lib/bits.ts";

/** The common properties of hosts of one make. */
export interface HostKind {
  /** In the fleet. */
  readonly number: number;
  readonly gpuCount: number;
  /** Masks that share no GPU and cover the host, ascending by lowest GPU. */
  readonly domains: readonly number[];
  readonly numaNodes: readonly number[];
  /** Answers by free mask: a memo of a pure function. */
  readonly known: Map<number, HostShares>;
}

/** By number of GPUs, from 0 to all that are free. */
export interface HostShares {
  readonly free: number;
  readonly masks: readonly number[];
  readonly domains: readonly number[];
  readonly numaNodes: readonly number[];
}

export function sharesOf(kind: HostKind, freeMask: number): HostShares {
  const known = kind.known.get(freeMask);
  if (known !== undefined) return known;
  const shares = bestShares(kind, freeMask);
  kind.known.set(freeMask, shares);
  return shares;
}

interface Share {
  readonly mask: number;
  readonly domains: number;
  readonly numaNodes: number;
  /** Free GPUs left in the touched domains and nodes. */
  readonly left: number;
}

function bestShares(kind: HostKind, freeMask: number): HostShares {
  const free = popCount(freeMask);
  const nodeSets = nodeSetsOf(kind, freeMask);
  const best: Share[] = [{ mask: 0, domains: 0, numaNodes: 0, left: 0 }];
  for (let gpus = 1; gpus <= free; gpus += 1) {
    let winner: Share | undefined;
    for (const nodes of nodeSets) {
      const share = shareWithin(kind, { gpus, freeMask, nodes });
      if (share !== undefined && (winner === undefined || isBetter(share, winner))) winner = share;
    }
    if (winner !== undefined) best.push(winner);
  }
  return {
    free,
    masks: best.map(({ mask }) => mask),
    domains: best.map(({ domains }) => domains),
    numaNodes: best.map(({ numaNodes }) => numaNodes),
  };
}

const isBetter = (a: Share, b: Share): boolean =>
  (a.domains - b.domains || a.numaNodes - b.numaNodes || a.left - b.left) < 0;

/** More would make too many sets. */
const MOST_NODES = 4;

/** Unions of NUMA nodes, those of fewer nodes first. */
function nodeSetsOf({ numaNodes }: HostKind, freeMask: number): readonly number[] {
  const nodes = numaNodes.filter((node) => (node & freeMask) !== 0);
  if (nodes.length > MOST_NODES) {
    const byMost = [...nodes].sort((a, b) => popCount(b & freeMask) - popCount(a & freeMask));
    let union = 0;
    return byMost.map((node) => (union |= node));
  }
  const sets = Array.from({ length: 2 ** nodes.length - 1 }, (_, at) => at + 1);
  return sets
    .sort((a, b) => popCount(a) - popCount(b) || a - b)
    .map((set) => nodes.reduce((union, node, at) => ((set >> at) & 1 ? union | node : union), 0));
}

interface Demand {
  readonly gpus: number;
  readonly freeMask: number;
  /** Only GPUs of these NUMA nodes. */
  readonly nodes: number;
}

/** The largest domains until one suffices for the rest, and of those that suffice the smallest. */
function shareWithin(kind: HostKind, { gpus, freeMask, nodes }: Demand): Share | undefined {
  const within = freeMask & nodes;
  if (popCount(within) < gpus) return undefined;
  const parts = kind.domains
    .map((domain) => ({ mask: domain & within, left: popCount(domain & freeMask) }))
    .filter(({ mask }) => mask !== 0)
    .sort((a, b) => popCount(b.mask) - popCount(a.mask));
  let open = gpus;
  let mask = 0;
  let domains = 0;
  let left = popCount(within);
  while (open > 0) {
    let at = 0;
    while (popCount(parts[at + 1]?.mask ?? 0) >= open) at += 1;
    const [part] = parts.splice(at, 1);
    if (part === undefined) return undefined;
    const share = lowestBits(part.mask, open);
    mask |= share;
    domains += 1;
    open -= popCount(share);
    left += part.left;
  }
  const numaNodes = kind.numaNodes.filter((node) => (node & mask) !== 0).length;
  return { mask, domains, numaNodes, left };
}
