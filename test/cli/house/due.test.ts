/** @file What is due: by age, by quotas of tenants and of all; nothing that is held back or young, and never more than the rule needs. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { dueOf, type Due, type Kept } from "../../../cli/house/due.ts";
import { GRACE_MS, type KeepRule } from "../../../domain/fleet/keep.ts";
import { tenantId } from "../../../domain/values/ids.ts";
import { caseCount } from "../../support/case-count.ts";

const NOW_MS = Date.UTC(2027, 0, 31);
const DAY_MS = 86_400_000;
const kept = (path: string, bytes: number, days: number, more: Partial<Kept> = {}): Kept => ({
  ...{ path, bytes, files: 1, endedMs: NOW_MS - days * DAY_MS },
  ...more,
});
const pathsOf = ({ due }: Due): readonly string[] => due.map(({ path }) => path);
const tenant = tenantId("a");

describe("what is due", () => {
  it("is older than the rule says", () => {
    const found = dueOf([kept("old", 1, 31), kept("young", 1, 29)], { forMs: 30 * DAY_MS }, NOW_MS);
    expect(found.due).toMatchObject([{ path: "old", why: "older than 30 days" }]);
    expect(dueOf([kept("old", 1, 900)], {}, NOW_MS)).toEqual({ due: [], over: [] });
  });

  it("beyond a tenant's quota is what ended first, and only the tenant's", () => {
    const things = [
      kept("a-new", 6, 2, { tenant }),
      kept("a-old", 6, 5, { tenant }),
      kept("a-runs", 3, 9, { tenant, held: "its job has not ended" }),
      kept("b-oldest", 90, 20, { tenant: tenantId("b") }),
    ];
    const rule = { tenantBytes: 50, tenants: new Map([[tenant, 9]]) };
    const { due, over } = dueOf(things, rule, NOW_MS);
    expect(due).toMatchObject([{ path: "b-oldest" }, { path: "a-old", why: /tenant's quota/ }]);
    expect(over).toEqual([]);
  });

  it("counts what is held back, and says what stays beyond the quota", () => {
    const things = [
      kept("runs", 30, 9, { tenant, held: "its job has not ended" }),
      kept("today", 5, 0.5, { tenant }),
      kept("over", 5, 3, { tenant }),
    ];
    const found = dueOf(things, { mostBytes: 10 }, NOW_MS);
    expect(pathsOf(found)).toEqual(["over"]);
    expect(found.over).toEqual([{ bytes: 35, mostBytes: 10 }]);
  });
});

const thing = fc.record({
  bytes: fc.integer({ min: 0, max: 20 }),
  days: fc.integer({ min: 0, max: 40 }),
  tenant: fc.constantFrom("a", "b", undefined),
  isHeld: fc.boolean(),
});
const limit = fc.option(fc.integer({ min: 0, max: 60 }), { nil: undefined });
const rules = fc.record({ forDays: limit, mostBytes: limit, tenantBytes: limit });

describe("any rule over any things", () => {
  it("takes nothing that is held back or young, the oldest first, and no more than it needs", () => {
    fc.assert(
      fc.property(fc.array(thing, { maxLength: 12 }), rules, (drawn, { forDays, ...sizes }) => {
        const things = drawn.map(({ bytes, days, isHeld, ...of }, at) =>
          kept(String(at), bytes, days, {
            ...(of.tenant !== undefined && { tenant: tenantId(of.tenant) }),
            ...(isHeld && { held: "held" }),
          }),
        );
        const forMs = forDays === undefined ? undefined : Math.max(1, forDays) * DAY_MS;
        const { mostBytes, tenantBytes } = sizes;
        const rule: KeepRule = {
          ...(forMs !== undefined && { forMs }),
          ...(mostBytes !== undefined && { mostBytes }),
          ...(tenantBytes !== undefined && { tenantBytes }),
        };
        const found = dueOf(things, rule, NOW_MS);
        const gone = new Set(pathsOf(found));
        for (const one of things.filter(({ path }) => gone.has(path))) {
          expect(one.held).toBeUndefined();
          expect(NOW_MS - (one.endedMs ?? NOW_MS)).toBeGreaterThanOrEqual(GRACE_MS);
        }
        const left = things.filter(({ path }) => !gone.has(path));
        const isFree = ({ held, endedMs = NOW_MS }: Kept): boolean =>
          held === undefined && NOW_MS - endedMs >= GRACE_MS;
        const bytesOf = (of: readonly Kept[]): number =>
          of.reduce((sum, { bytes }) => sum + bytes, 0);
        if (forMs !== undefined)
          expect(left.filter((one) => isFree(one) && NOW_MS - (one.endedMs ?? 0) > forMs)).toEqual(
            [],
          );
        const scopes = [
          { of: left, mostBytes, over: found.over.find((each) => each.tenant === undefined) },
          ...["a", "b"].map((name) => ({
            of: left.filter((one) => one.tenant === name),
            mostBytes: tenantBytes,
            over: found.over.find((each) => each.tenant === name),
          })),
        ];
        for (const { of, mostBytes: most, over } of scopes) {
          if (most === undefined) continue;
          const isOver = bytesOf(of) > most;
          // Nothing that may go is left where the quota is exceeded still.
          if (isOver) expect(of.filter((one) => isFree(one) && one.bytes > 0)).toEqual([]);
          if (isOver) expect(over?.mostBytes).toBe(most);
        }
        // Without quotas of tenants, what went for the quota of all ended first, and its youngest was needed.
        if (mostBytes !== undefined && tenantBytes === undefined) {
          const forQuota = found.due.filter(({ why }) => why === "beyond the quota of all");
          const youngest = forQuota.at(-1);
          if (youngest === undefined) return;
          expect(bytesOf(left) + youngest.bytes).toBeGreaterThan(mostBytes);
          for (const one of left.filter((each) => isFree(each) && each.bytes > 0))
            expect(one.endedMs).toBeGreaterThanOrEqual(youngest.endedMs ?? 0);
        }
      }),
      { numRuns: caseCount(600) },
    );
  });
});
