/**
 * @file Computes when the copies of each bus end, while kernels read host memory and GPUs copy to one another over the same wires.
 *
 * Copies queue on their bus. Another use of the bus shares it equally for as long as copies are left, and delays them by its share. The
 * estimate asks in the order of the plan, so a large use may turn out to have delayed copies that were computed before: then it passes over
 * the plan once more with the uses of the first round known. Uses below `LARGE` of a bus's work delay only later copies.
 * Cost: O(1) a call without allocation; O(uses × log) for a second round.
 */

export interface BusClocks {
  /** Begins a plan; `workMs` is the total copying time of each bus. */
  readonly begin: (workMs: Float64Array) => void;
  /** Begins the second round over the same plan. */
  readonly beginAgain: (workMs: Float64Array) => void;
  /** Whether copies ended later than this round had answered. */
  readonly isInfeasible: () => boolean;
  /** The next copy of a bus; answers when it ends. */
  readonly copy: (bus: number, ms: number) => number;
  /** Another use from `fromMs` on, alone or beside copies; answers how long it takes. */
  readonly use: (bus: number, fromMs: number, took: UseMs) => number;
}

export interface UseMs {
  readonly aloneMs: number;
  /** Time of the use when copies share the bus throughout. */
  readonly sharedMs: number;
}

interface Use {
  readonly fromMs: number;
  delayMs: number;
}

/** Share of a bus's work from which on a use is worth a second round. */
const LARGE = 5e-3;

export function busClocks(busCount: number): BusClocks {
  const freeMs = new Float64Array(busCount);
  /** Known end of all copies of the bus. */
  const endMs = new Float64Array(busCount);
  const largeMs = new Float64Array(busCount);
  const uses: Use[][] = Array.from({ length: busCount }, () => []);
  const at = new Int32Array(busCount);
  let isAgain = false;
  let isInfeasible = false;

  return {
    begin: (workMs) => {
      isAgain = false;
      isInfeasible = false;
      freeMs.fill(0);
      endMs.set(workMs);
      for (let bus = 0; bus < busCount; bus += 1) {
        largeMs[bus] = LARGE * (workMs[bus] ?? 0);
        const own = uses[bus];
        if (own !== undefined && own.length > 0) own.length = 0;
      }
    },
    beginAgain: (workMs) => {
      isAgain = true;
      freeMs.fill(0);
      endMs.set(workMs);
      at.fill(0);
      for (const own of uses) own.sort((a, b) => a.fromMs - b.fromMs);
    },
    isInfeasible: () => isInfeasible,
    copy: (bus, ms) => {
      const begin = freeMs[bus] ?? 0;
      let end = begin + ms;
      if (isAgain) {
        const own = uses[bus] ?? [];
        for (let next = own[at[bus] ?? 0]; next !== undefined; next = own[at[bus] ?? 0]) {
          if (next.fromMs >= end) break;
          const delay = Math.min(next.delayMs, end - Math.max(begin, next.fromMs));
          end += delay;
          next.delayMs -= delay;
          if (next.delayMs > 1e-12) break;
          at[bus] = (at[bus] ?? 0) + 1;
        }
      }
      freeMs[bus] = end;
      return end;
    },
    use: (bus, fromMs, { aloneMs, sharedMs }) => {
      const leftMs = (endMs[bus] ?? 0) - fromMs;
      if (leftMs <= 0) return aloneMs;
      // Copies run at half speed, so the rest of them lasts twice as long.
      const isBeside = sharedMs <= 2 * leftMs;
      const took = isBeside ? sharedMs : 2 * leftMs + aloneMs * (1 - (2 * leftMs) / sharedMs);
      const delayMs = isBeside ? sharedMs / 2 : leftMs;
      const isLarge = delayMs > (largeMs[bus] ?? 0);
      const free = freeMs[bus] ?? 0;
      endMs[bus] = (endMs[bus] ?? 0) + delayMs;
      if (!isAgain || !isLarge) freeMs[bus] = free + delayMs;
      if (!isAgain && isLarge) {
        uses[bus]?.push({ fromMs, delayMs });
        if (free > fromMs) isInfeasible = true;
      }
      return took;
    },
  };
}
