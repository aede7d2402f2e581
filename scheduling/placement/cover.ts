/**
 * @file Tables of the cheapest way to take 0, 1, 2, … GPUs out of a part of the fleet, and how tables of parts become one of the whole.
 *
 * Opening a part (a host, a rack, a cluster, a site) costs the same however many GPUs come from it, so the cheapest way to
 * take k GPUs out of several parts is min over j of (k − j out of those before) + (j out of this one): min-plus convolution, exact.
 * Costs are compared first, then `tie`; of equals the one that takes fewer GPUs from later parts stays. Costs are multiples of 2^-30, so
 * sums are exact and equal means equal. Cost: O(GPUs of the one · GPUs of the other) a part, both cut to what is wanted.
 */

export interface Cover {
  /** GPUs that can be taken, at most; every number below can be taken too. */
  readonly size: number;
  /** By number of GPUs; 0 costs nothing. */
  readonly cost: Float64Array;
  readonly tie: Float64Array;
  /** Says which GPUs that many are. */
  readonly take: (gpus: number) => void;
}

/** The nearest cost that can be added up without rounding. */
export const exactCost = (cost: number): number => Math.round(cost * 2 ** 30) / 2 ** 30;

export interface Fold {
  readonly cover: Cover;
  readonly work: number;
}

/** Takes up to `most` GPUs out of all parts together. */
export function foldCovers(parts: readonly Cover[], most: number): Fold {
  const cost = new Float64Array(most + 1).fill(Infinity);
  const tie = new Float64Array(most + 1);
  cost[0] = 0;
  let size = 0;
  let work = 0;
  const shares: Uint32Array[] = [];
  for (const part of parts) {
    const total = Math.min(most, size + part.size);
    const share = new Uint32Array(total + 1);
    // Downwards, so that what is read is still the table without this part.
    for (let gpus = total; gpus > 0; gpus -= 1) {
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
  return { cover: { size, cost, tie, take }, work };
}

export interface Opening {
  readonly cost: number;
  /** Added to the tie of that many GPUs. */
  readonly tieOf: (gpus: number) => number;
}

/** The same GPUs, with what it costs to use any of them. */
export function openedCover({ size, cost, tie, take }: Cover, opening: Opening): Cover {
  const opened = cost.slice(0, size + 1);
  const ties = tie.slice(0, size + 1);
  for (let gpus = 1; gpus <= size; gpus += 1) {
    opened[gpus] = (opened[gpus] ?? 0) + opening.cost;
    ties[gpus] = (ties[gpus] ?? 0) + opening.tieOf(gpus);
  }
  return { size, cost: opened, tie: ties, take };
}
