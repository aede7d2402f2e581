/** @file The tables of racks: cheapest for every number of GPUs, shared by racks that are alike, and which of equals is left whole. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { popCount } from "../../../domain/lease/lease.ts";
import type { RackPart } from "../../../scheduling/placement/parts.ts";
import {
  hostTie,
  rackTable,
  rackTablesFor,
  rackTie,
} from "../../../scheduling/placement/rack-tables.ts";
import { openSpread } from "../../../scheduling/placement/spread.ts";
import { fleetOf } from "./fleets.ts";
import { costOfHosts, leastCost, LAYOUTS, weightsOf } from "./parted.ts";

/** A rack of hosts with three GPUs each, in the order of the masks. */
function rackOf(masks: readonly number[], from = 0): RackPart {
  const hosts = masks.flatMap((freeMask, index) => {
    const at = LAYOUTS[from + index];
    return at === undefined ? [] : [{ at, freeMask }];
  });
  const free = masks.reduce((sum, mask) => sum + popCount(mask), 0);
  return { hosts, free, most: free };
}

const gangOf = (gpus: number) => ({ gpus, weights: weightsOf(gpus), rackTables: new Map() });

describe("the table of a rack", () => {
  test("has the lowest cost of every number of GPUs, and masks that add up to it", () => {
    const masks = fc.array(fc.integer({ min: 1, max: 0b111 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(masks, fc.integer({ min: 2, max: 8 }), (free, gpus) => {
        const rack = rackOf(free);
        const gang = gangOf(gpus);
        const { cover, masksFor } = rackTable(rack, 0, gang);
        expect(cover.size).toBe(Math.min(rack.free, gpus));
        for (let count = 1; count <= cover.size; count += 1) {
          // All hosts as if in one rack.
          const priceOf = (hosts: RackPart["hosts"]): number =>
            costOfHosts(
              hosts.map((each) => ({ ...each, at: { ...each.at, rack: 0 } })),
              gang.weights,
              "rack",
            );
          expect(cover.cost[count]).toBe(leastCost(rack.hosts, count, priceOf));
          const taken = masksFor(count);
          expect(taken.reduce((sum, { mask }) => sum + popCount(mask), 0)).toBe(count);
          for (const { at, mask } of taken) expect(mask & ~(free[at] ?? 0)).toBe(0);
          expect(priceOf(rack.hosts.slice(0, taken.length))).toBe(cover.cost[count]);
        }
      }),
    );
  });

  test("is that of any rack with the same kinds of hosts and free GPUs", () => {
    const gang = gangOf(4);
    const table = rackTable(rackOf([0b111, 0b011]), 0, gang);
    expect(rackTable(rackOf([0b111, 0b011], 2), 0, gang)).toBe(table);
    expect(rackTable(rackOf([0b111, 0b110]), 0, gang)).not.toBe(table);
    expect(rackTable(rackOf([0b111, 0b011]), 2, gang)).not.toBe(table);
    expect(gang.rackTables.size).toBe(3);
  });

  test.each([
    { what: "the broken host rather than a whole one", free: [0b111, 0b011], gpus: 1, want: [1] },
    { what: "the host where nothing is left over", free: [0b111, 0b011], gpus: 3, want: [0] },
    { what: "the first of equals", free: [0b011, 0b011], gpus: 2, want: [0] },
  ])("takes $what", ({ free, gpus, want }) => {
    const taken = rackTable(rackOf(free), 0, gangOf(gpus)).masksFor(gpus);
    expect(taken.map(({ at }) => at)).toEqual(want);
  });
});

test("gangs of one size and type share their tables within a fleet", () => {
  const fleet = fleetOf([{ cluster: "c0", hosts: 1 }]);
  const [spread, other] = [openSpread(fleet), openSpread(fleet)];
  const tables = rackTablesFor(spread, "H100", 4);
  expect(rackTablesFor(spread, "H100", 4)).toBe(tables);
  expect(rackTablesFor(spread, "H100", 5)).not.toBe(tables);
  expect(rackTablesFor(spread, "A100", 4)).not.toBe(tables);
  expect(rackTablesFor(other, "H100", 4)).not.toBe(tables);
});

test("GPUs left over in hosts weigh more than any left over in racks; a broken whole host weighs sixteen", () => {
  expect(hostTie(8, 8, 8)).toBe(0);
  expect(hostTie(8, 5, 4)).toBeGreaterThan(rackTie(1_000, 1));
  expect(hostTie(8, 8, 7) / hostTie(8, 5, 4)).toBe(1 + 16);
  expect([rackTie(8, 8), rackTie(8, 5), rackTie(1_000, 1)]).toEqual([0, 3, 255]);
});
