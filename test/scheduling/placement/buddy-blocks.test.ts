/** @file The blocks of a buddy allocator: as appendix A's text has it, against a plain set of busy GPUs. */
import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { buddyAllocator } from "../../../bench/plan/buddy-allocator.ts";

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
    const buddy = buddyAllocator(HOST);
    expect(buddy.take(2)).toEqual([0, 1]);
    expect(buddy.freeBlocks()).toEqual([4, 2]);
  });
});

it("gives back what a block has too many", () => {
  const buddy = buddyAllocator(HOST);
  expect(buddy.take(5)).toEqual([0, 1, 2, 3, 4]);
  expect(buddy.freeBlocks()).toEqual([2, 1]);
});

it("keeps within a host where one has room, then within a rack", () => {
  const buddy = buddyAllocator([
    [4, 4],
    [4, 4],
  ]);
  expect(buddy.take(3)).toEqual([0, 1, 2]);
  expect(buddy.take(4)).toEqual([4, 5, 6, 7]);
  expect(buddy.take(8)).toEqual([8, 9, 10, 11, 12, 13, 14, 15]);
  expect(buddy.take(2)).toBeUndefined();
});

it("joins buddies again", () => {
  const buddy = buddyAllocator(HOST);
  const [a = [], b = []] = [buddy.take(3), buddy.take(4)];
  buddy.give(a);
  expect(buddy.freeBlocks()).toEqual([4]);
  buddy.give(b);
  expect(buddy.freeBlocks()).toEqual([8]);
});

it("takes one host's GPUs where a gang may have no others", () => {
  const racks = [[4, 4], [8]];
  expect(buddyAllocator(racks).take(6)).toEqual([0, 1, 2, 3, 4, 5]);
  expect(buddyAllocator(racks).take(6, { isSameHost: true })).toEqual([8, 9, 10, 11, 12, 13]);
  expect(buddyAllocator(racks).take(9, { isSameHost: true })).toBeUndefined();
});

test("as a set of busy GPUs would have it, whatever is taken and given back", () => {
  fc.assert(
    fc.property(
      fc.array(fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 3 }), {
        minLength: 1,
        maxLength: 3,
      }),
      fc.array(fc.integer({ min: -4, max: 12 }), { maxLength: 40 }),
      fc.boolean(),
      (racks, wishes, isSameHost) => {
        const total = racks.flat().reduce((sum, count) => sum + count, 0);
        const hostOf = racks.flat().flatMap((count, host) => Array<number>(count).fill(host));
        const buddy = buddyAllocator(racks);
        const held: (readonly number[])[] = [];
        const busy = new Set<number>();
        for (const wish of wishes) {
          if (wish <= 0) {
            const given = held.splice(-wish % Math.max(1, held.length), 1)[0] ?? [];
            buddy.give(given);
            for (const gpu of given) busy.delete(gpu);
          } else {
            const largest = buddy.freeBlocks()[0] ?? 0;
            const taken = buddy.take(wish, { isSameHost });
            if (!isSameHost) expect(taken === undefined).toBe(wish > largest);
            if (taken !== undefined) {
              expect(taken).toHaveLength(wish);
              if (isSameHost) expect(new Set(taken.map((gpu) => hostOf[gpu])).size).toBe(1);
              for (const gpu of taken) {
                expect(busy.has(gpu)).toBe(false);
                expect(gpu).toBeLessThan(total);
                busy.add(gpu);
              }
              held.push(taken);
            }
          }
          const free = buddy.freeBlocks().reduce((sum, size) => sum + size, 0);
          expect(free).toBe(total - busy.size);
        }
        for (const gpus of held) buddy.give(gpus);
        expect(buddy.freeBlocks()).toEqual([total]);
      },
    ),
  );
});
