/** @file Credits for lobbies: never more than there are free places, shared by weight within one quantum. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { tenantId, type TenantId } from "../../../../domain/values/ids.ts";
import { callsUpTo, giveCredits } from "../../../../scheduling/ledger/rules/credits.ts";
import {
  NEW_LOBBY,
  openIntake,
  type OpenIntake,
} from "../../../../scheduling/ledger/rules/open-intake.ts";
import { openPool, take, usedOf, type Pool } from "../../../../scheduling/ledger/rules/places.ts";
import { caseCount } from "../../../support/case-count.ts";

interface Settling {
  readonly tenants: readonly { readonly id: TenantId; readonly weight: number }[];
  readonly intake: OpenIntake;
  readonly pool: Pool;
  readonly got: Map<TenantId, number>;
}

function settling(weights: readonly number[], waiting: number, size = 400): Settling {
  const tenants = weights.map((weight, at) => ({ id: tenantId(`t${at}`), weight }));
  const intake = openIntake();
  for (const { id } of tenants)
    intake.lobbies.set(id, { ...NEW_LOBBY, waiting: { ...NEW_LOBBY.waiting, training: waiting } });
  return { tenants, intake, pool: openPool({ tenants: [] }, size), got: new Map() };
}

/** Gives what can be given, and settles all of it: each place is in use until it is freed. */
function give({ tenants, intake, pool, got }: Settling): number {
  const weightOf = (tenant: TenantId): number =>
    tenants.find(({ id }) => id === tenant)?.weight ?? 1;
  const free = 400;
  giveCredits(intake, pool, { weightOf, nowMs: 0, calls: callsUpTo(new Map()) });
  let given = 0;
  for (const [tenant, account] of intake.lobbies) {
    given += account.credits.size;
    got.set(tenant, (got.get(tenant) ?? 0) + account.credits.size);
    intake.lobbies.set(tenant, { ...account, credits: new Map() });
  }
  expect(given).toBeLessThanOrEqual(free);
  return given;
}

describe("credits", () => {
  it("are shared by weight: no two lobbies that wait all the time are further apart than one quantum", () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(1, 2, 3, 5, 0.25, 10), { minLength: 2, maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 5, maxLength: 60 }),
        (weights, frees) => {
          const all = settling(weights, 10_000);
          const full = { tenant: tenantId("x"), class: "training" } as const;
          while (usedOf(all.pool) < 350) take(all.pool, full, 1);
          const before = usedOf(all.pool);
          give(all);
          for (const free of frees) {
            take(all.pool, full, -free);
            give(all);
          }
          expect(usedOf(all.pool)).toBeGreaterThanOrEqual(Math.min(before, 350));
          const greatest = Math.max(...weights);
          const rounds = all.tenants.map(
            ({ id, weight }) => ((all.got.get(id) ?? 0) * greatest) / weight,
          );
          // One credit of the lightest, one turn of the others.
          const quantum = greatest / Math.min(...weights) + 1;
          expect(Math.max(...rounds) - Math.min(...rounds)).toBeLessThanOrEqual(quantum + 1e-9);
        },
      ),
      { numRuns: caseCount(150) },
    );
  });

  it("are no more than the free places, nor than jobs that wait", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 60 }),
        fc.integer({ min: 0, max: 90 }),
        (jobs, taken) => {
          const all = settling([1, 1], jobs, 100);
          const full = { tenant: tenantId("x"), class: "training" } as const;
          for (let at = 0; at < taken; at += 1) take(all.pool, full, 1);
          const given = give(all);
          // 12 places are of the other classes alone.
          expect(given).toBe(Math.min(2 * jobs, Math.max(0, 88 - taken)));
        },
      ),
      { numRuns: caseCount(100) },
    );
  });

  it("go round: with one place at a time every lobby has its turn", () => {
    const all = settling([1, 1, 1], 100, 100);
    const full = { tenant: tenantId("x"), class: "training" } as const;
    for (let at = 0; at < 88; at += 1) take(all.pool, full, 1);
    for (let at = 0; at < 9; at += 1) {
      take(all.pool, full, -1);
      expect(give(all)).toBe(1);
    }
    expect([...all.got.values()]).toEqual([3, 3, 3]);
  });

  it("of one lobby are bounded, so that one whose jobs do not come keeps nobody waiting", () => {
    const all = settling([1, 1], 5_000, 20_000);
    giveCredits(all.intake, all.pool, { weightOf: () => 1, nowMs: 0, calls: callsUpTo(new Map()) });
    giveCredits(all.intake, all.pool, { weightOf: () => 1, nowMs: 0, calls: callsUpTo(new Map()) });
    expect([...all.intake.lobbies.values()].map(({ credits }) => credits.size)).toEqual([200, 200]);
  });
});
