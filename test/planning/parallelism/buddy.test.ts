/** @file The buddy allocator: as appendix A's text has it, against a plain set of busy GPUs. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { buddyAllocator } from "../../../planning/parallelism/buddy.ts";

const HOST = [[8]];

/** Appendix A's listing as it stands: blocks of one size only, and a descent that goes below the request. */
function listingTakes(count: number, freeSizes: readonly number[]): number | undefined {
  const size = 2 ** Math.ceil(Math.log2(count));
  if (!freeSizes.includes(size)) return undefined;
  let block = size;
  while (block > count) block /= 2;
  return block;
}

describe("where the paper's listing slips", () => {
  it("gives 3 GPUs when asked for 3, not 2", () => {
    expect(listingTakes(3, [4])).toBe(2);
    expect(buddyAllocator([[4]]).take(3)).toEqual([0, 1, 2]);
  });

  it("splits a larger block where none of the size is free", () => {
    expect(listingTakes(2, [8])).toBeUndefined();
    const allocator = buddyAllocator(HOST);
    expect(allocator.take(2)).toEqual([0, 1]);
    expect(allocator.freeBlocks()).toEqual([4, 2]);
  });
});

it("gives back what a block has too many", () => {
  const allocator = buddyAllocator(HOST);
  expect(allocator.take(5)).toEqual([0, 1, 2, 3, 4]);
  expect(allocator.freeBlocks()).toEqual([2, 1]);
});

it("keeps within a host where one has room, then within a rack", () => {
  const allocator = buddyAllocator([
    [4, 4],
    [4, 4],
  ]);
  expect(allocator.take(3)).toEqual([0, 1, 2]);
  expect(allocator.take(4)).toEqual([4, 5, 6, 7]);
  expect(allocator.take(8)).toEqual([8, 9, 10, 11, 12, 13, 14, 15]);
  expect(allocator.take(2)).toBeUndefined();
});

it("joins buddies again", () => {
  const allocator = buddyAllocator(HOST);
  const [a = [], b = []] = [allocator.take(3), allocator.take(4)];
  allocator.give(a);
  expect(allocator.freeBlocks()).toEqual([4]);
  allocator.give(b);
  expect(allocator.freeBlocks()).toEqual([8]);
});

test("a GPU that was not taken cannot be given back", () => {
  expect(() => buddyAllocator(HOST).give([1])).toThrow(/GPU 1/);
});

test("as a set of busy GPUs would have it, whatever is taken and given back", () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }), {
        minLength: 1,
        maxLength: 3,
      }),
      fc.array(fc.integer({ min: -4, max: 12 }), { maxLength: 40 }),
      (racks, wishes) => {
        const total = racks.flat().reduce((sum, count) => sum + count, 0);
        const allocator = buddyAllocator(racks);
        const held: (readonly number[])[] = [];
        const busy = new Set<number>();
        for (const settings of wishes) {
          if (settings <= 0) {
            const given = held.splice(-settings % Math.max(1, held.length), 1)[0] ?? [];
            allocator.give(given);
            for (const gpu of given) busy.delete(gpu);
          } else {
            const largest = allocator.freeBlocks()[0] ?? 0;
            const taken = allocator.take(settings);
            expect(taken === undefined).toBe(settings > largest);
            if (taken !== undefined) {
              expect(taken).toHaveLength(settings);
              for (const gpu of taken) {
                expect(busy.has(gpu)).toBe(false);
                expect(gpu).toBeLessThan(total);
                busy.add(gpu);
              }
              held.push(taken);
            }
          }
          expect(allocator.freeGpus()).toBe(total - busy.size);
        }
        for (const gpus of held) allocator.give(gpus);
        expect(allocator.freeBlocks()).toEqual([total]);
      },
    ),
  );
});
