/** @file The fold to one number of GPUs against the fold to all of them: the same cost, the same tie, the same GPUs. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  exactCost,
  foldCovers,
  openedCover,
  type Cover,
} from "../../../scheduling/placement/cover.ts";
import { boundsOf, foldWithin } from "../../../scheduling/placement/cover-target.ts";

const OPENING = exactCost(0.083);

interface Part {
  /** Free GPUs of each host. */
  readonly hosts: readonly number[];
  readonly hostCost: number;
  readonly leftTie: number;
}

/** Few different ones, so that many parts are alike and ties are common. */
const part: fc.Arbitrary<Part> = fc.record({
  hosts: fc.array(fc.constantFrom(0, 3, 7, 8, 8), { minLength: 1, maxLength: 4 }),
  hostCost: fc.constantFrom(exactCost(0.0086), exactCost(0.01)),
  leftTie: fc.constantFrom(1, 256),
});

const boundsFor = (racks: readonly Cover[], target: number) =>
  boundsOf({ groups: [{ racks, most: target }], target, opening: OPENING });

type Taken = { readonly part: number; readonly gpus: number }[];

/** Cost falls again where hosts change from one to the next: tables need not rise. */
function coverOf({ hosts, hostCost, leftTie }: Part, at: number, taken: Taken): Cover {
  const size = hosts.reduce((sum, free) => sum + free, 0);
  const cost = new Float64Array(size + 1);
  const tie = new Float64Array(size + 1);
  for (let gpus = 1; gpus <= size; gpus += 1) {
    let held = 0;
    let count = 0;
    while (held < gpus) held += hosts[(count += 1) - 1] ?? 0;
    cost[gpus] = count * hostCost + exactCost(gpus === 5 ? 0.004 : 0);
    tie[gpus] = (held - gpus) * leftTie;
  }
  const take = (gpus: number): void => {
    taken.push({ part: at, gpus });
  };
  const cover = { size, least: 0, cost, tie, take };
  return openedCover(cover, { cost: OPENING, tieOf: (gpus) => Math.min(255, size - gpus) });
}

test("is the fold of all numbers, at the one that is asked for", () => {
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 7 }), fc.nat(), (parts, drawn) => {
      const taken: Taken = [];
      const covers = parts.map((each, at) => coverOf(each, at, taken));
      const total = covers.reduce((sum, { size }) => sum + size, 0);
      fc.pre(total > 0);
      const target = 1 + (drawn % total);

      const all = foldCovers(covers, { least: target, most: target });
      all.cover.take(target);
      const wanted = taken.splice(0);
      const band = { least: target, most: target };
      const one = foldWithin(covers, band, boundsFor(covers, target));
      one.cover.take(target);

      expect(one.cover.cost[target]).toBe(all.cover.cost[target]);
      expect(one.cover.tie[target]).toBe(all.cover.tie[target]);
      expect(taken).toEqual(wanted);
    }),
    { numRuns: 2_000 },
  );
});

test("has every number of some racks that others can complete within the bounds", () => {
  let within = 0;
  let beyond = 0;
  fc.assert(
    fc.property(
      fc.array(part, { minLength: 1, maxLength: 4 }),
      fc.array(part, { minLength: 1, maxLength: 4 }),
      fc.nat(),
      fc.constantFrom(0, OPENING),
      (here, elsewhere, drawn, slack) => {
        const taken: Taken = [];
        const own = here.map((each, at) => coverOf(each, at, taken));
        const others = elsewhere.map((each, at) => coverOf(each, at, []));
        const size = sizeOf(own);
        const total = size + sizeOf(others);
        fc.pre(total > 0);
        const target = 1 + (drawn % total);
        const groups = [
          { racks: own, most: size },
          { racks: others, most: sizeOf(others) },
        ];
        const tight = boundsOf({ groups, target, opening: OPENING });
        const bounds = { ...tight, most: tight.most + slack };
        const band = { least: 0, most: Math.min(size, target) };
        const all = foldCovers(own, band).cover;
        const rest = foldCovers(others, { least: 0, most: sizeOf(others) }).cover;
        const some = foldWithin(own, band, bounds).cover;
        for (let gpus = 0; gpus <= band.most; gpus += 1) {
          const whole = (all.cost[gpus] ?? 0) + (rest.cost[target - gpus] ?? Infinity);
          if (whole > bounds.most) {
            beyond += 1;
            continue;
          }
          within += 1;
          expect(some.cost[gpus]).toBe(all.cost[gpus]);
          expect(some.tie[gpus]).toBe(all.tie[gpus]);
          all.take(gpus);
          const wanted = taken.splice(0);
          some.take(gpus);
          expect(taken.splice(0)).toEqual(wanted);
        }
      },
    ),
    { numRuns: 1_000 },
  );
  expect(Math.min(within, beyond)).toBeGreaterThan(1_000);
});

const sizeOf = (covers: readonly Cover[]): number =>
  covers.reduce((sum, { size }) => sum + size, 0);

test("looks at few numbers where parts are whole", () => {
  const whole = { hosts: [8, 8, 8, 8], hostCost: exactCost(0.0086), leftTie: 256 };
  const covers = Array.from({ length: 62 }, (_, at) => coverOf(whole, at, []));
  const all = foldCovers(covers, { least: 512, most: 512 });
  const one = foldWithin(covers, { least: 512, most: 512 }, boundsFor(covers, 512));
  expect(one.work * 50).toBeLessThan(all.work);
});
