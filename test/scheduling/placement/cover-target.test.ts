/** @file The fold to one number of GPUs against the fold to all of them: the same cost, the same tie, the same GPUs. */
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  exactCost,
  foldCovers,
  openedCover,
  type Cover,
} from "../../../scheduling/placement/cover.ts";
import { foldToTarget } from "../../../scheduling/placement/cover-target.ts";

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
      const one = foldToTarget(covers, { target, opening: OPENING });
      one.cover.take(target);

      expect(one.cover.cost[target]).toBe(all.cover.cost[target]);
      expect(one.cover.tie[target]).toBe(all.cover.tie[target]);
      expect(taken).toEqual(wanted);
    }),
    { numRuns: 2_000 },
  );
});

test("looks at few numbers where parts are whole", () => {
  const whole = { hosts: [8, 8, 8, 8], hostCost: exactCost(0.0086), leftTie: 256 };
  const covers = Array.from({ length: 62 }, (_, at) => coverOf(whole, at, []));
  const all = foldCovers(covers, { least: 512, most: 512 });
  const one = foldToTarget(covers, { target: 512, opening: OPENING });
  expect(one.work * 50).toBeLessThan(all.work);
});
