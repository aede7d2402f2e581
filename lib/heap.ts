/**
 * @file Binary heaps whose items can be removed and moved, and walks through one in order that leave it as it is.
 *
 * Least first. The index of each item is kept from the first time that an item other than the least is asked for. A walk keeps the items
 * that may come next in a small heap of its own: the k-th item costs O(log k), independent of the size. So a queue of
 * thousands of items is read from the front thousands of times a second without a copy.
 * Cost: O(log n) a change. `isBefore` is a strict total order of the items, or the walk's order is not defined.
 */

export interface Heap<T> {
  readonly size: () => number;
  readonly peek: () => T | undefined;
  /** An item is in it once. */
  readonly push: (item: T) => void;
  readonly pop: () => T | undefined;
  /** Whether it was there. */
  readonly remove: (item: T) => boolean;
  /** The item's rank has changed. */
  readonly moved: (item: T) => void;
  /** In order, from the front. It is over as soon as the heap changes. */
  readonly walk: () => Walk<T>;
}

export interface Walk<T> {
  readonly peek: () => T | undefined;
  readonly next: () => T | undefined;
}

export type IsBefore<T> = (a: T, b: T) => boolean;

export function heap<T>(isBefore: IsBefore<T>, first: Iterable<T> = []): Heap<T> {
  const items: T[] = [...first];
  let places: Map<T, number> | undefined;
  for (let at = (items.length >> 1) - 1; at >= 0; at -= 1) sink(at);

  function push(item: T): void {
    items.push(item);
    rise(items.length - 1);
  }

  function pop(): T | undefined {
    const [least] = items;
    if (least !== undefined) removeAt(0, least);
    return least;
  }

  function remove(item: T): boolean {
    const at = placeOf(item);
    if (at !== undefined) removeAt(at, item);
    return at !== undefined;
  }

  function removeAt(at: number, item: T): void {
    places?.delete(item);
    const last = items.pop();
    if (last === undefined || at === items.length) return;
    put(last, at);
    rise(at);
    sink(at);
  }

  function moved(item: T): void {
    const at = placeOf(item);
    if (at === undefined) return;
    rise(at);
    sink(at);
  }

  function placeOf(item: T): number | undefined {
    if (items[0] === item && items.length > 0) return 0;
    places ??= new Map(items.map((each, at) => [each, at]));
    return places.get(item);
  }

  function put(item: T, at: number): void {
    items[at] = item;
    places?.set(item, at);
  }

  function rise(from: number): void {
    const item = items[from];
    if (item === undefined) return;
    let at = from;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const parent = items[above];
      if (parent === undefined || !isBefore(item, parent)) break;
      put(parent, at);
      at = above;
    }
    put(item, at);
  }

  function sink(from: number): void {
    const item = items[from];
    if (item === undefined) return;
    let at = from;
    for (;;) {
      const [below, child] = lesserChild(at);
      if (child === undefined || !isBefore(child, item)) break;
      put(child, at);
      at = below;
    }
    put(item, at);
  }

  function lesserChild(at: number): readonly [number, T | undefined] {
    const below = 2 * at + 1;
    const left = items[below];
    const right = items[below + 1];
    return left !== undefined && right !== undefined && isBefore(right, left)
      ? [below + 1, right]
      : [below, left];
  }

  return {
    size: () => items.length,
    peek: () => items[0],
    push,
    pop,
    remove,
    moved,
    walk: () => walkOf(items, isBefore),
  };
}

/** The next item of a walk is the least of those whose parents it has passed; `open` is a heap of their places. */
function walkOf<T>(items: readonly T[], isBefore: IsBefore<T>): Walk<T> {
  const open: number[] = items.length > 0 ? [0] : [];
  const isLess = (a: number, b: number): boolean => {
    const left = items[a];
    const right = items[b];
    return left !== undefined && right !== undefined && isBefore(left, right);
  };

  function next(): T | undefined {
    const [at] = open;
    if (at === undefined) return undefined;
    const left = 2 * at + 1;
    // The first child takes its parent's place, so that a step costs one descent and one rise at most.
    if (left < items.length) open[0] = left;
    else {
      const last = open.pop();
      if (last !== undefined && open.length > 0) open[0] = last;
    }
    sinkOpen();
    if (left + 1 < items.length) {
      open.push(left + 1);
      riseOpen();
    }
    return items[at];
  }

  function sinkOpen(): void {
    let at = 0;
    for (;;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) {
        if (child < open.length && isLess(open[child] ?? 0, open[least] ?? 0)) least = child;
      }
      if (least === at) return;
      swap(at, least);
      at = least;
    }
  }

  function riseOpen(): void {
    let at = open.length - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!isLess(open[at] ?? 0, open[above] ?? 0)) return;
      swap(at, above);
      at = above;
    }
  }

  function swap(a: number, b: number): void {
    const held = open[a] ?? 0;
    open[a] = open[b] ?? 0;
    open[b] = held;
  }

  return { peek: () => items[open[0] ?? items.length], next };
}
