/** @file A shared queue: its laws whatever comes and however much is taken at a time. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { allWaiting, joined, NOTHING_WAITS, served, type FairQueue } from "../../lib/fair-queue.ts";

interface Item {
  readonly by: string;
  readonly cost: number;
  readonly at: number;
}

const queueOf = (items: readonly Item[], before: FairQueue<Item> = NOTHING_WAITS) =>
  items.reduce(
    (queue, item) => joined(queue, { key: item.by, cost: item.cost, value: item }),
    before,
  );
const upTo = (most: number): ((item: Item) => boolean) => {
  let sum = 0;
  return ({ cost }) => {
    const isFirst = sum === 0;
    sum += cost;
    return isFirst || sum <= most;
  };
};

const ITEMS = fc.array(
  fc.record({ by: fc.constantFrom("a", "b", "c", "d"), cost: fc.integer({ min: 1, max: 100 }) }),
  { maxLength: 60 },
);
/** What comes, and how much is taken after it. */
const ROUNDS = fc.array(fc.tuple(ITEMS, fc.integer({ min: 1, max: 400 })), { maxLength: 12 });

test("each value is taken once, those of one key in the order of their arrival", () => {
  fc.assert(
    fc.property(ROUNDS, (rounds) => {
      let queue: FairQueue<Item> = NOTHING_WAITS;
      let count = 0;
      const taken: Item[] = [];
      const take = (most: number): void => {
        const { values, rest } = served(queue, upTo(most));
        expect(values.map(({ at }) => at)).toEqual(
          values.map(({ at }) => at).sort((a, b) => a - b),
        );
        expect(rest.size).toBe(queue.size - values.length);
        taken.push(...values);
        queue = rest;
      };
      for (const [items, most] of rounds) {
        queue = queueOf(
          items.map((item) => ({ ...item, at: count++ })),
          queue,
        );
        take(most);
      }
      while (queue.size > 0) take(150);
      expect(taken.map(({ at }) => at).sort((a, b) => a - b)).toEqual(
        Array.from({ length: count }, (_, at) => at),
      );
      for (const key of ["a", "b", "c", "d"]) {
        const own = taken.filter(({ by }) => by === key).map(({ at }) => at);
        expect(own).toEqual([...own].sort((a, b) => a - b));
      }
    }),
  );
});

test("with one key everything is taken in the order of arrival", () => {
  fc.assert(
    fc.property(ITEMS, fc.integer({ min: 1, max: 400 }), (items, most) => {
      let queue = queueOf(items.map((item, at) => ({ ...item, by: "", at })));
      const taken: number[] = [];
      while (queue.size > 0) {
        const { values, rest } = served(queue, upTo(most));
        taken.push(...values.map(({ at }) => at));
        queue = rest;
      }
      expect(taken).toEqual(items.map((_, at) => at));
    }),
  );
});

test("a key with little waits for no more than so much of each other key, however much those have brought", () => {
  fc.assert(
    fc.property(
      ITEMS,
      fc.integer({ min: 1, max: 100 }),
      fc.integer({ min: 0, max: 2_000 }),
      (items, cost, servedBefore) => {
        const flood = queueOf(items.map((item, at) => ({ ...item, at })));
        const begun = served(flood, upTo(servedBefore + 1)).rest;
        let queue = queueOf([{ by: "quiet", cost, at: items.length }], begun);
        const before = new Map<string, number>();
        for (;;) {
          const { values, rest } = served(queue, upTo(1));
          const [next] = values;
          if (next === undefined || next.by === "quiet") break;
          before.set(next.by, (before.get(next.by) ?? 0) + next.cost);
          queue = rest;
        }
        // Of each key what its tag has already, at most its largest portion, and the quiet one's own cost.
        for (const sum of before.values()) expect(sum).toBeLessThanOrEqual(100 + cost);
      },
    ),
  );
});

test("keys that always wait share by cost, not by number", () => {
  let queue: FairQueue<Item> = queueOf(
    Array.from({ length: 400 }, (_, at) => ({
      by: at % 2 === 0 ? "large" : "small",
      cost: at % 2 === 0 ? 10 : 1,
      at,
    })),
  );
  const { values, rest } = served(queue, upTo(220));
  queue = rest;
  const costOf = (key: string): number =>
    values.filter(({ by }) => by === key).reduce((sum, { cost }) => sum + cost, 0);
  expect([costOf("large"), costOf("small")]).toEqual([110, 110]);
  expect(allWaiting(queue)).toHaveLength(400 - values.length);
});

test("nobody saves up turns: who comes back starts where the others are", () => {
  const others = Array.from({ length: 100 }, (_, at) => ({ by: "busy", cost: 10, at }));
  const { rest } = served(queueOf(others), upTo(500));
  const back = Array.from({ length: 100 }, (_, at) => ({ by: "back", cost: 10, at: 100 + at }));
  const { values } = served(queueOf(back, rest), upTo(200));
  expect(values.filter(({ by }) => by === "back")).toHaveLength(10);
});
