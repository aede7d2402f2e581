/** @file The simulator's parts: random streams, the event queue, accounts, spreads, due shares. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../../lib/random.ts";
import { openAccounts } from "../../simulator/accounts.ts";
import { eventQueue } from "../../lib/event-queue.ts";
import { spreadOf } from "../../simulator/spread.ts";

describe("random streams", () => {
  const drawn = (seed: number, name: string): readonly number[] => {
    const random = randomFrom(seed).stream(name);
    return Array.from({ length: 8 }, () => random.unit());
  };

  test("the same seed and name draw the same; another seed or name something else", () => {
    expect(drawn(1, "a")).toEqual(drawn(1, "a"));
    expect(drawn(1, "a")).not.toEqual(drawn(2, "a"));
    expect(drawn(1, "a")).not.toEqual(drawn(1, "b"));
  });

  test("what a stream draws does not depend on what its parent has drawn", () => {
    const parent = randomFrom(3);
    parent.unit();
    expect(parent.stream("x").unit()).toBe(randomFrom(3).stream("x").unit());
  });

  test("means and variances are as they should be", () => {
    const random = randomFrom(5);
    const values = Array.from({ length: 20_000 }, () => random.normal());
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const variance = values.reduce((sum, value) => sum + value ** 2, 0) / values.length;
    const exponentials = Array.from({ length: 20_000 }, () => random.exponential(7));
    expect(mean).toBeCloseTo(0, 1);
    expect(variance).toBeCloseTo(1, 1);
    expect(exponentials.reduce((sum, value) => sum + value, 0) / 20_000 / 7).toBeCloseTo(1, 1);
    expect(exponentials.every((value) => value >= 0 && Number.isFinite(value))).toBe(true);
  });
});

test("events come out by time, then rank, then in the order in which they went in", () => {
  const entries = fc.array(
    fc.tuple(fc.integer({ min: 0, max: 5 }), fc.integer({ min: 0, max: 2 })),
  );
  fc.assert(
    fc.property(entries, (list) => {
      const queue = eventQueue<number>();
      list.forEach(([atMs, rank], at) => queue.put(atMs, rank, at));
      const out = Array.from({ length: list.length }, () => queue.take()?.what);
      const want = list
        .map(([atMs, rank], at) => ({ atMs, rank, at }))
        .sort((a, b) => a.atMs - b.atMs || a.rank - b.rank || a.at - b.at)
        .map(({ at }) => at);
      expect(out).toEqual(want);
      expect(queue.take()).toBeUndefined();
    }),
  );
});

test("accounts integrate what each group holds, and lost work moves to its cause with the time that it took", () => {
  const accounts = openAccounts(2);
  accounts.change(0, { phase: "kept", gpus: 8, rate: 6 }, 10);
  accounts.change(0, { phase: "kept", gpus: -8, rate: -6 }, 30);
  accounts.change(0, { phase: "preemption", gpus: 8, rate: 6 }, 30);
  accounts.change(0, { phase: "preemption", gpus: -8, rate: -6 }, 40);
  accounts.lose(0, "failure", { progress: 15, held: 20 });
  const [first, second] = accounts.read(50);
  expect(first).toEqual({
    kept: 105,
    starting: 0,
    preemption: 80,
    failure: 20,
    spread: 35,
    held: 240,
  });
  expect(second).toMatchObject({ kept: 0, held: 0 });
});

test("a spread has nearest-rank quantiles, a mean, and a distribution that ends at the largest value", () => {
  const spread = spreadOf([4, 1, 3, 2]);
  expect(spread).toMatchObject({ count: 4, mean: 2.5, p50: 2, p99: 4, max: 4 });
  expect(spread.cdf.at(-1)).toEqual([4, 1]);
  expect(spreadOf([])).toMatchObject({ count: 0, mean: 0, max: 0, cdf: [] });
});
