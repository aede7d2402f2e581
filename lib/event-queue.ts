/**
 * @file A queue of events, soonest first: a binary heap.
 *
 * Ties of time go by rank (facts before the cycle that reads them), then by order of entry, so a run never depends on the order inside
 * the heap. Cost: O(log n) in and out.
 */

export interface Happening<What> {
  readonly atMs: number;
  readonly rank: number;
  readonly order: number;
  readonly what: What;
}

export interface EventQueue<What> {
  readonly size: () => number;
  /** Infinite when there is none. */
  readonly nextAtMs: () => number;
  readonly put: (atMs: number, rank: number, what: What) => void;
  readonly take: () => Happening<What> | undefined;
}

export function eventQueue<What>(): EventQueue<What> {
  const heap: Happening<What>[] = [];
  let entered = 0;
  return {
    size: () => heap.length,
    nextAtMs: () => heap[0]?.atMs ?? Infinity,
    put(atMs, rank, what) {
      const entry = { atMs, rank, order: entered, what };
      entered += 1;
      let at = heap.length;
      heap.push(entry);
      while (at > 0) {
        const parentAt = (at - 1) >> 1;
        const parent = heap[parentAt];
        if (parent === undefined || !isBefore(entry, parent)) break;
        heap[at] = parent;
        at = parentAt;
      }
      heap[at] = entry;
    },
    take() {
      const first = heap[0];
      const last = heap.pop();
      if (first === undefined || last === undefined || heap.length === 0) return first;
      let at = 0;
      for (;;) {
        let childAt = 2 * at + 1;
        let child = heap[childAt];
        if (child === undefined) break;
        const right = heap[childAt + 1];
        if (right !== undefined && isBefore(right, child)) {
          child = right;
          childAt += 1;
        }
        if (!isBefore(child, last)) break;
        heap[at] = child;
        at = childAt;
      }
      heap[at] = last;
      return first;
    },
  };
}

const isBefore = (a: Happening<unknown>, b: Happening<unknown>): boolean =>
  a.atMs !== b.atMs ? a.atMs < b.atMs : a.rank !== b.rank ? a.rank < b.rank : a.order < b.order;
