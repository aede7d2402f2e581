/**
 * @file Tables of the cheapest way to take 0, 1, 2, … GPUs from a part of the fleet, and their combination into tables of larger parts.
 *
 * Opening a part (a host, a rack, a cluster, a site) costs the same for any number of GPUs, so the cheapest way to take k GPUs from several
 * parts is min over j of (k − j from the parts before) + (j from this one): min-plus convolution, exact. Costs are compared first, then
 * `tie`; of equals the one that takes fewer GPUs from later parts stays. Costs are multiples of 2^-30, so sums are exact and equality holds.
 * If at least `least` GPUs are wanted from all parts, each part gives at least `least` less the size of the others, so only that band of
 * every table is computed: it is thin where the gang takes nearly all free GPUs.
 * Cost: O(GPUs of the one · GPUs of the other) a part, both cut to the wanted band.
 */

export interface Cover {
  /** GPUs that can be taken, at most; every number below can be taken too. */
  readonly size: number;
  /** Entries below this are not computed, except 0. */
  readonly least: number;
  /** By number of GPUs; 0 costs nothing. */
  readonly cost: Float64Array;
  readonly tie: Float64Array;
  /** The GPUs of each entry. */
  readonly take: (gpus: number) => void;
}

/** The nearest cost that can be added up without rounding. */
export const exactCost = (cost: number): number => Math.round(cost * 2 ** 30) / 2 ** 30;

export interface Fold {
  readonly cover: Cover;
  readonly work: number;
}

/** How many GPUs are wanted out of a part. */
export interface Band {
  readonly least: number;
  readonly most: number;
}

/** The fewest GPUs that can come from one of several parts when `least` come from all; `total` is what all hold. */
export const leastOf = (least: number, total: number, size: number): number =>
  Math.max(0, least - (total - size));

/** Takes up to `most` GPUs out of all parts together; fewer than `least` are not worked out. */
export function foldCovers(parts: readonly Cover[], { least, most }: Band): Fold {
  const cost = new Float64Array(most + 1).fill(Infinity);
  const tie = new Float64Array(most + 1);
  cost[0] = 0;
  let size = 0;
  let work = 0;
  let later = 0;
  for (const part of parts) later += part.size;
  const shares: Uint32Array[] = [];
  for (const part of parts) {
    later -= part.size;
    const total = Math.min(most, size + part.size);
    const share = new Uint32Array(total + 1);
    const lowest = Math.max(1, least - later);
    // Downwards, so that the entries read are still those without this part.
    for (let gpus = total; gpus >= lowest; gpus -= 1) {
      const first = Math.max(0, gpus - size);
      const last = Math.min(gpus, part.size);
      let best = Infinity;
      let bestTie = Infinity;
      let chosen = first;
      for (let own = first; own <= last; own += 1) {
        const sum = (cost[gpus - own] ?? 0) + (part.cost[own] ?? 0);
        if (sum > best) continue;
        const ties = (tie[gpus - own] ?? 0) + (part.tie[own] ?? 0);
        if (sum === best && ties >= bestTie) continue;
        best = sum;
        bestTie = ties;
        chosen = own;
      }
      cost[gpus] = best;
      tie[gpus] = bestTie;
      share[gpus] = chosen;
      work += last - first + 1;
    }
    shares.push(share);
    size = total;
  }
  const take = (gpus: number): void => {
    let open = gpus;
    for (let at = parts.length - 1; at >= 0; at -= 1) {
      const own = shares[at]?.[open] ?? 0;
      if (own > 0) parts[at]?.take(own);
      open -= own;
    }
  };
  return { cover: { size, least, cost, tie, take }, work };
}

export interface Opening {
  readonly cost: number;
  /** Added to the tie of that many GPUs. */
  readonly tieOf: (gpus: number) => number;
}

/** The same GPUs, with the cost of using any of them added. */
export function openedCover(cover: Cover, opening: Opening): Cover {
  const { size, least, cost, tie, take } = cover;
  const opened = cost.slice(0, size + 1);
  const ties = tie.slice(0, size + 1);
  for (let gpus = Math.max(1, least); gpus <= size; gpus += 1) {
    opened[gpus] = (opened[gpus] ?? 0) + opening.cost;
    ties[gpus] = (ties[gpus] ?? 0) + opening.tieOf(gpus);
  }
  return { size, least, cost: opened, tie: ties, take };
}
