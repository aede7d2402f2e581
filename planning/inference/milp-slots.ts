/**
 * @file The subgraph slots of SortingHat's MILP and the order in which buses serve them (§3.3, figure 7).
 *
 * Slots count from 1; GPU i (from 1) has slots (i − 1)q + 1 … iq, in this order. Odd slots read their parameters directly, even slots
 * have them copied. Slot 0 is host memory. Each bus copies for its GPUs in turn: first the first slot of every GPU, then the second.
 * Not reached by the product yet: used by `bench inference` and tests.
 */

export interface Slots {
  readonly q: number;
  readonly gpuCount: number;
  /** kq; slots run from 0 to this. */
  readonly last: number;
  /** Slot whose copies come directly before those of the key on the same bus; absent for the first slot of a bus (`PCIeStartIdx`). */
  readonly parentDt: ReadonlyMap<number, number>;
  /** Bus of a slot (`ParentPCIe`). */
  readonly busOf: (slot: number) => number;
  /** GPU of a slot, from 0. */
  readonly gpuOf: (slot: number) => number;
}

/** `busOfGpu`: bus of each GPU. */
export function slotsFor(busOfGpu: ArrayLike<number>, q: number): Slots {
  const gpuCount = busOfGpu.length;
  const gpuOf = (slot: number): number => Math.floor((slot - 1) / q);
  const parentDt = new Map<number, number>();
  const before = new Map<number, number>();
  for (let turn = 1; turn <= q; turn += 1) {
    for (let gpu = 0; gpu < gpuCount; gpu += 1) {
      const slot = gpu * q + turn;
      const bus = busOfGpu[gpu] ?? 0;
      const parent = before.get(bus);
      if (parent !== undefined) parentDt.set(slot, parent);
      before.set(bus, slot);
    }
  }
  return {
    q,
    gpuCount,
    last: gpuCount * q,
    parentDt,
    busOf: (slot) => busOfGpu[gpuOf(slot)] ?? 0,
    gpuOf,
  };
}
