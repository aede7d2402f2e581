/** @file Heaps against sorting: every order of changes, and walks that stop anywhere. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { heap, type Walk } from "../../lib/heap.ts";

interface Item {
  readonly id: number;
  rank: number;
}

const isBefore = (a: Item, b: Item): boolean =>
  a.rank - b.rank < 0 || (a.rank === b.rank && a.id < b.id);
const inOrder = (items: Iterable<Item>): readonly Item[] =>
  [...items].sort((a, b) => a.rank - b.rank || a.id - b.id);
const read = <T>(walk: Walk<T>, most = Infinity): readonly T[] => {
  const items: T[] = [];
  while (items.length < most) {
    const peeked = walk.peek();
    const item = walk.next();
    expect(item).toBe(peeked);
    if (item === undefined) break;
    items.push(item);
  }
  return items;
};

const changes = fc.array(
  fc.record({
    kind: fc.constantFrom("push", "push", "push", "pop", "remove", "move"),
    at: fc.nat(40),
    rank: fc.nat(12),
  }),
  { maxLength: 60 },
);

test("whatever is pushed, popped, removed and moved, a walk reads the items in order and leaves them there", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(12), { maxLength: 30 }), changes, (first, after) => {
      const model = new Set<Item>(first.map((rank, id) => ({ id, rank })));
      const tested = heap<Item>(isBefore, model);
      after.forEach(({ kind, at, rank }, index) => {
        const item = inOrder(model)[at];
        if (kind === "push") {
          const added = { id: 100 + index, rank };
          model.add(added);
          tested.push(added);
        } else if (kind === "pop") {
          const [least] = inOrder(model);
          expect(tested.pop()).toBe(least);
          if (least !== undefined) model.delete(least);
        } else if (item === undefined) {
          expect(tested.remove({ id: -1, rank })).toBe(false);
        } else if (kind === "remove") {
          model.delete(item);
          expect(tested.remove(item)).toBe(true);
        } else {
          item.rank = rank;
          tested.moved(item);
        }
        expect(read(tested.walk(), at)).toEqual(inOrder(model).slice(0, at));
        expect(tested.peek()).toBe(inOrder(model)[0]);
      });
      expect(read(tested.walk())).toEqual(inOrder(model));
      expect(read(tested.walk())).toEqual(inOrder(model));
      expect(tested.size()).toBe(model.size);
    }),
  );
});

test("the first of a hundred thousand are read without looking at the others", () => {
  let compared = 0;
  const tested = heap<number>(
    (a, b) => {
      compared += 1;
      return a < b;
    },
    [...Array(100_000).keys()].map((item) => (item * 7_919) % 100_003),
  );
  compared = 0;
  expect(read(tested.walk(), 10)).toHaveLength(10);
  expect(compared).toBeLessThan(200);
});
