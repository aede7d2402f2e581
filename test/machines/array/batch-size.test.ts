/** @file How large batches are: bounds, the tail, and what an array's history may cost. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { batchSize, MAX_BATCHES } from "../../../machines/array/batch-size.ts";

describe("a batch", () => {
  it.each([
    { name: "two a slot while nobody knows", facts: { slots: 8, waiting: 1_000 }, want: 16 },
    { name: "a minute a slot", facts: { slots: 8, waiting: 9_000, meanTaskMs: 5_000 }, want: 96 },
    { name: "64 a slot at most", facts: { slots: 4, waiting: 9_000, meanTaskMs: 1 }, want: 256 },
    { name: "512 at most", facts: { slots: 8, waiting: 9_000, meanTaskMs: 1 }, want: 512 },
    {
      name: "two a slot of the longest tasks",
      facts: { slots: 8, waiting: 9_000, meanTaskMs: 9e6 },
      want: 16,
    },
    { name: "three at least on one slot", facts: { slots: 1, waiting: 90 }, want: 3 },
    {
      name: "half of an even share",
      facts: { slots: 8, allSlots: 24, waiting: 96, meanTaskMs: 1_000 },
      want: 16,
    },
    {
      name: "a whole share of the shortest tasks",
      facts: { slots: 8, allSlots: 24, waiting: 96, meanTaskMs: 10 },
      want: 32,
    },
    { name: "the last one", facts: { slots: 8, allSlots: 24, waiting: 1 }, want: 1 },
    {
      name: "one of four on four hosts",
      facts: { slots: 1, allSlots: 4, waiting: 4, meanTaskMs: 1 },
      want: 1,
    },
    { name: "nothing when none waits", facts: { slots: 8, waiting: 0 }, want: 0 },
  ])("has $name", ({ facts, want }) => {
    expect(batchSize({ allSlots: facts.slots, batches: 0, ...facts })).toBe(want);
  });

  it("has one task at least and no more than wait, whatever the facts", () => {
    const facts = fc.record({
      slots: fc.integer({ min: 1, max: 30 }),
      allSlots: fc.integer({ min: 1, max: 5_000 }),
      waiting: fc.integer({ min: 1, max: 100_000 }),
      meanTaskMs: fc.double({ min: 0, max: 1e9, noNaN: true }),
      batches: fc.integer({ min: 0, max: 3_000 }),
    });
    fc.assert(
      fc.property(facts, (each) => {
        const size = batchSize(each);
        expect(size).toBeGreaterThanOrEqual(1);
        expect(size).toBeLessThanOrEqual(Math.min(512, each.waiting));
      }),
    );
  });
});

describe("a batch of an array in bulk", () => {
  /** Sizes in one round of leases of 8 slots. */
  const round = (count: number, leases: number, meanTaskMs: number): readonly number[] => {
    const sizes: number[] = [];
    let waiting = count;
    for (let lease = 0; lease < leases; lease += 1) {
      const bulk = { inHand: count - waiting, count };
      const size = batchSize({
        ...{ slots: 8, allSlots: 8 * leases, waiting, meanTaskMs, batches: 0, bulk },
      });
      sizes.push(size);
      waiting -= size;
    }
    return sizes;
  };

  it("is an even share of short tasks for each lease that comes, so that one round is enough", () => {
    expect(round(800, 8, 50)).toEqual(Array(8).fill(100));
  });

  it("is half of what is left of an even share where the tasks are long", () => {
    expect(round(800, 8, 2_000)).toEqual([50, 47, 44, 42, 39, 37, 34, 32]);
  });

  it("is larger where the array has more than 100,000 tasks, and has an end", () => {
    const facts = { slots: 8, allSlots: 64, meanTaskMs: 9e6, waiting: 1_000_000 };
    const bulk = { inHand: 0, count: 1_000_000 };
    expect(batchSize({ ...facts, batches: 0, bulk })).toBe(1_000);
    expect(batchSize({ ...facts, batches: 5_000, bulk })).toBe(1_024);
    expect(batchSize({ ...facts, batches: 0 })).toBe(500);
  });
});

describe("a whole array", () => {
  it.each([
    { count: 100_000, leases: 1, slots: 1, meanTaskMs: 1e6, wantPerTask: 0.2 },
    { count: 100_000, leases: 125, slots: 8, meanTaskMs: 1e6, wantPerTask: 0.2 },
    { count: 1_000, leases: 24, slots: 1, meanTaskMs: 1e6, wantPerTask: 2.5 },
    { count: 1_000, leases: 3, slots: 8, meanTaskMs: 1, wantPerTask: 0.3 },
  ])(
    "of $count tasks on $leases leases of $slots slots costs at most $wantPerTask events a task in batches",
    ({ count, leases, slots, meanTaskMs, wantPerTask }) => {
      let waiting = count;
      let batches = 0;
      while (waiting > 0) {
        waiting -= batchSize({ slots, allSlots: leases * slots, waiting, meanTaskMs, batches });
        batches += 1;
      }
      expect(batches).toBeLessThanOrEqual(MAX_BATCHES + leases);
      expect((6 * batches) / count).toBeLessThanOrEqual(wantPerTask);
    },
  );
});
