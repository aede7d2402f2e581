/**
 * @file The cheapest way to take one given number of GPUs from racks: the fold of cover.ts, without the entries that cannot lead to that number.
 *
 * After each rack an entry is kept only if its cost plus a lower bound for the missing GPUs is within the cost of a greedy choice. The lower
 * bound is the cost of opening as few racks as have them, plus the lower convex hulls of all racks together, flattest pieces first. So
 * whole racks contribute little but multiples of a rack. The answer equals that of the fold, GPU for GPU: dropped entries cost more than the
 * cheapest, and costs are exact, so no tie is lost. Cost: O(racks · (GPUs kept) · (GPUs of a rack)), at worst that of the fold.
 */

import type { Band, Cover, Fold } from "./cover.ts";

/** Racks that may serve together, how many GPUs they may give, and how many are wanted of all. Each use of a rack costs `opening`, which its table has in it. */
export interface Wanted {
  readonly groups: readonly RackGroup[];
  readonly target: number;
  readonly opening: number;
}

export interface RackGroup {
  readonly racks: readonly Cover[];
  readonly most: number;
}

export interface Bounds {
  readonly target: number;
  /** Lower bound of the cost by number of GPUs; never decreasing. */
  readonly floor: Float64Array;
  /** Cost of a greedy choice that takes as many as it can of each group in turn; infinite where that is too few. */
  readonly most: number;
  readonly outlines: ReadonlyMap<Float64Array, Outline>;
}

export function boundsOf({ groups, target, opening }: Wanted): Bounds {
  const racks = groups.flatMap((group) => group.racks);
  // Racks that are alike share their tables.
  const outlines = new Map<Float64Array, Outline>();
  for (const rack of racks)
    if (!outlines.has(rack.cost)) outlines.set(rack.cost, outlineOf(rack, opening));
  let most = 0;
  let open = target;
  for (const group of groups) {
    const taken = Math.min(group.most, open);
    most += greedyCost(group.racks, taken);
    open -= taken;
  }
  const floor = floorOf(racks, outlines, { target, opening });
  return { target, floor, most: open > 0 ? Infinity : most, outlines };
}

/** Between `least` and `most` GPUs out of the racks: those numbers alone that can be part of `target` GPUs within the bounds; others cost infinitely much. */
export function foldWithin(parts: readonly Cover[], { least, most }: Band, bounds: Bounds): Fold {
  const { target, floor, outlines } = bounds;
  const limit = bounds.most + ROUNDING;
  let cost = new Float64Array(most + 1).fill(Infinity);
  let tie = new Float64Array(most + 1);
  let nextCost = new Float64Array(most + 1).fill(Infinity);
  let nextTie = new Float64Array(most + 1);
  const share = new Uint32Array(most + 1);
  cost[0] = 0;
  let kept: readonly number[] = [0];
  let work = 0;
  let later = parts.reduce((sum, { size }) => sum + size, 0);
  const steps: Step[] = [];
  for (const part of parts) {
    const { runStarts } = outlines.get(part.cost) ?? NO_OUTLINE;
    later -= part.size;
    const reached: number[] = [];
    for (const before of kept) {
      const costBefore = cost[before] ?? 0;
      const tieBefore = tie[before] ?? 0;
      const first = Math.max(0, least - later - before);
      let own = Math.min(part.size, most - before);
      while (own >= first) {
        const gpus = before + own;
        const sum = costBefore + (part.cost[own] ?? 0);
        work += 1;
        if (sum + (floor[target - gpus] ?? 0) > limit) {
          // Fewer at the same cost leave more to pay for.
          own = (runStarts[own] ?? 0) - 1;
          continue;
        }
        const best = nextCost[gpus] ?? 0;
        const ties = tieBefore + (part.tie[own] ?? 0);
        const isFirst = best === Infinity;
        if (isFirst) reached.push(gpus);
        if (isFirst || sum < best || (sum === best && isLess(ties, own, gpus))) {
          nextCost[gpus] = sum;
          nextTie[gpus] = ties;
          share[gpus] = own;
        }
        own -= 1;
      }
    }
    for (const gpus of kept) cost[gpus] = Infinity;
    [cost, nextCost] = [nextCost, cost];
    [tie, nextTie] = [nextTie, tie];
    kept = reached;
    steps.push({ reached, shares: reached.map((gpus) => share[gpus] ?? 0) });
  }

  function isLess(ties: number, own: number, gpus: number): boolean {
    const best = nextTie[gpus] ?? 0;
    return ties < best || (ties === best && own < (share[gpus] ?? 0));
  }
  const take = (gpus: number): void => {
    let open = gpus;
    for (let at = parts.length - 1; at >= 0; at -= 1) {
      const { reached, shares } = steps[at] ?? { reached: [], shares: [] };
      const own = shares[reached.indexOf(open)] ?? 0;
      if (own > 0) parts[at]?.take(own);
      open -= own;
    }
  };
  return { cover: { size: most, least, cost, tie, take }, work };
}

/** The entries kept after a part, and the GPUs of each that come from that part. */
interface Step {
  readonly reached: readonly number[];
  readonly shares: readonly number[];
}

/** Costs are multiples of 2^-30 (`exactCost`); a floor is not, and may be rounded up by less than this. */
const ROUNDING = 2 ** -32;

function floorOf(
  parts: readonly Cover[],
  outlines: ReadonlyMap<Float64Array, Outline>,
  { target, opening }: { readonly target: number; readonly opening: number },
): Float64Array {
  const pieces = parts
    .flatMap(({ cost }) => outlines.get(cost)?.hull ?? [])
    .sort((a, b) => a.slope - b.slope);
  const sizes = parts.map(({ size }) => size).sort((a, b) => b - a);
  const floor = new Float64Array(target + 1);
  let inner = 0;
  let opened = 0;
  let held = 0;
  let piece = 0;
  let left = pieces[0]?.gpus ?? 0;
  for (let gpus = 1; gpus <= target; gpus += 1) {
    while (left === 0 && piece < pieces.length) left = pieces[(piece += 1)]?.gpus ?? 0;
    inner += pieces[piece]?.slope ?? Infinity;
    left -= 1;
    while (held < gpus && opened < sizes.length) held += sizes[(opened += 1) - 1] ?? 0;
    floor[gpus] = inner + opened * opening;
  }
  for (let gpus = target - 1; gpus > 0; gpus -= 1)
    floor[gpus] = Math.min(floor[gpus] ?? 0, floor[gpus + 1] ?? 0);
  return floor;
}

/** Of a part's table. */
interface Outline {
  /** The lower convex hull of the cost of GPUs without the opening. */
  readonly hull: readonly Piece[];
  /** By number of GPUs: the fewest, down from there, that cost the same. */
  readonly runStarts: Uint32Array;
}

const NO_OUTLINE: Outline = { hull: [], runStarts: new Uint32Array() };

function outlineOf(part: Cover, opening: number): Outline {
  const runStarts = new Uint32Array(part.size + 1);
  for (let gpus = 1; gpus <= part.size; gpus += 1)
    runStarts[gpus] = part.cost[gpus] === part.cost[gpus - 1] ? (runStarts[gpus - 1] ?? 0) : gpus;
  return { hull: hullOf(part, opening), runStarts };
}

interface Piece {
  /** Cost of one more GPU. */
  readonly slope: number;
  readonly gpus: number;
}

function hullOf({ cost, size, least }: Cover, opening: number): readonly Piece[] {
  const corners: { readonly gpus: number; readonly cost: number }[] = [{ gpus: 0, cost: 0 }];
  for (let gpus = Math.max(1, least); gpus <= size; gpus += 1) {
    const next = { gpus, cost: (cost[gpus] ?? 0) - opening };
    while (corners.length > 1 && isAbove(corners.at(-2), corners.at(-1), next)) corners.pop();
    corners.push(next);
  }
  return corners.slice(1).map((corner, at) => {
    const from = corners[at] ?? corner;
    const gpus = corner.gpus - from.gpus;
    return { slope: (corner.cost - from.cost) / gpus, gpus };
  });
}

type Corner = { readonly gpus: number; readonly cost: number } | undefined;

/** Whether the middle one lies on or above the line between the others. */
function isAbove(from: Corner, middle: Corner, to: Corner): boolean {
  if (from === undefined || middle === undefined || to === undefined) return false;
  return (
    (middle.cost - from.cost) * (to.gpus - from.gpus) >=
    (to.cost - from.cost) * (middle.gpus - from.gpus)
  );
}

/** Cost of emptying the largest parts, or the cheapest ones by GPU, and taking the rest where it costs least. */
function greedyCost(parts: readonly Cover[], target: number): number {
  const perGpu = ({ cost, size }: Cover): number => (cost[size] ?? 0) / size;
  const able = parts.filter(({ size }) => size > 0);
  const orders = [
    [...able].sort((a, b) => b.size - a.size || perGpu(a) - perGpu(b)),
    [...able].sort((a, b) => perGpu(a) - perGpu(b) || b.size - a.size),
  ];
  return Math.min(...orders.map((order) => costInOrder(order, target)));
}

function costInOrder(order: readonly Cover[], target: number): number {
  let open = target;
  let sum = 0;
  for (const [at, part] of order.entries()) {
    if (open === 0) break;
    if (part.size < open) {
      sum += part.cost[part.size] ?? 0;
      open -= part.size;
      continue;
    }
    let rest = Infinity;
    for (const other of order.slice(at))
      if (other.size >= open && other.least <= open) rest = Math.min(rest, other.cost[open] ?? 0);
    return sum + rest;
  }
  return open === 0 ? sum : Infinity;
}
