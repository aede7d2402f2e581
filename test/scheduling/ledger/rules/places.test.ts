/** @file Shares of the intake: what is guaranteed to a tenant or a class stays free for it, whatever the others ask for. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { JOB_CLASSES, type JobClass } from "../../../../domain/job/job.ts";
import { tenantId } from "../../../../domain/values/ids.ts";
import { OTHER_TENANTS } from "../../../../scheduling/ledger/intake.ts";
import {
  levelFor,
  openPool,
  shareOf,
  take,
  usedOf,
  type Pool,
} from "../../../../scheduling/ledger/rules/places.ts";
import { caseCount } from "../../../support/case-count.ts";
import { fleetShape } from "../../builders.ts";

const TENANTS = ["a", "b", "stranger", "stray"].map(tenantId);
const shapeWith = (weights: readonly number[]) => {
  const shape = fleetShape(
    [{}],
    [
      { id: "a", quota: {} },
      { id: "b", quota: {} },
    ],
  );
  return {
    ...shape,
    tenants: shape.tenants.map((tenant, at) => ({ ...tenant, weight: weights[at] ?? 1 })),
  };
};

const pools = fc
  .tuple(fc.constantFrom(24, 100, 1_000), fc.constantFrom(1, 2, 7), fc.constantFrom(1, 0.5, 3))
  .map(([size, ...weights]) => ({ size, pool: () => openPool(shapeWith(weights), size) }));

const asks = fc.array(
  fc.record({
    tenant: fc.constantFrom(...TENANTS),
    class: fc.constantFrom<JobClass>(...JOB_CLASSES),
    amount: fc.constantFrom(1, 1, 1, 5),
    isOver: fc.boolean(),
  }),
  { maxLength: 400, size: "max" },
);

function fill(pool: Pool, of: { tenant: (typeof TENANTS)[number]; class: JobClass }): number {
  let count = 0;
  while (levelFor(pool, of, 1) !== undefined) {
    take(pool, of, 1);
    count += 1;
  }
  return count;
}

describe("a pool of places", () => {
  it("holds no more than its size, and what was taken and given back leaves no trace", () => {
    fc.assert(
      fc.property(pools, asks, ({ size, pool: open }, wanted) => {
        const pool = open();
        const held: (typeof wanted)[number][] = [];
        for (const ask of wanted) {
          if (levelFor(pool, ask, ask.amount) === undefined) continue;
          take(pool, ask, ask.amount);
          if (ask.isOver) take(pool, ask, -ask.amount);
          else held.push(ask);
          expect(usedOf(pool)).toBeLessThanOrEqual(size);
        }
        const afresh = open();
        for (const ask of held) take(afresh, ask, ask.amount);
        expect(pool.commonUsed).toBe(afresh.commonUsed);
        for (const [tenant, used] of afresh.used) expect(pool.used.get(tenant)).toEqual(used);
      }),
      { numRuns: caseCount(200) },
    );
  });

  it("keeps for each class of each tenant what is its own, under any flood of the others", () => {
    fc.assert(
      fc.property(pools, asks, ({ pool: open }, flood) => {
        const pool = open();
        const [a = OTHER_TENANTS] = TENANTS;
        const own = pool.shares.get(a)?.own ?? 0;
        for (const ask of flood) if (ask.tenant !== a || ask.class !== "inference") fill(pool, ask);
        expect(fill(pool, { tenant: a, class: "inference" })).toBeGreaterThanOrEqual(own);
        expect(own).toBeGreaterThan(0);
      }),
      { numRuns: caseCount(100) },
    );
  });

  it("keeps for each tenant its whole part, under any flood of the others", () => {
    fc.assert(
      fc.property(pools, asks, ({ pool: open }, flood) => {
        const pool = open();
        const [a = OTHER_TENANTS] = TENANTS;
        const { own = 0, rest = 0 } = pool.shares.get(a) ?? {};
        for (const ask of flood) if (ask.tenant !== a) fill(pool, ask);
        let got = 0;
        for (const name of JOB_CLASSES) got += fill(pool, { tenant: a, class: name });
        expect(got).toBeGreaterThanOrEqual(JOB_CLASSES.length * own + rest);
      }),
      { numRuns: caseCount(100) },
    );
  });

  it.each([
    ["nobody is named", [], 17_500],
    ["two are named", [1, 1], 15_000],
  ] as const)("lets one class of one tenant have most of it: %s", (_, weights, wantLeast) => {
    const shape = weights.length === 0 ? { tenants: [] } : shapeWith(weights);
    const pool = openPool(shape, 20_000);
    const [a = OTHER_TENANTS] = TENANTS;
    expect(fill(pool, { tenant: a, class: "training" })).toBeGreaterThanOrEqual(wantLeast);
  });

  it("gives tenants that the fleet does not name one share together", () => {
    const pool = openPool(shapeWith([1, 1]), 100);
    expect(TENANTS.map((tenant) => shareOf(pool, tenant))).toEqual([
      "a",
      "b",
      OTHER_TENANTS,
      OTHER_TENANTS,
    ]);
  });
});
