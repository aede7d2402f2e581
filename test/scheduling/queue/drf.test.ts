/** @file Dominant resource fairness: the smallest share for its weight is next, grants of the cycle count, and none is left out. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { tenantId } from "../../../domain/values/ids.ts";
import { tenantFlow } from "../../../scheduling/ledger/rules/flow.ts";
import { drf } from "../../../scheduling/queue/drf.ts";
import { gangRequest } from "../builders.ts";

const request = (tenant: string, at: number, count = 1): PendingRequest => ({
  ...gangRequest({ job: `${tenant}${at}`, tenant, gpus: count, submittedAtMs: at }),
  arrival: at,
});
const rule = (id: string, weight: number) => ({
  id: tenantId(id),
  weight,
  quota: {},
  borrowingLimit: 0,
});
const held = (of: Readonly<Record<string, number>>) => ({
  runningGpus: new Map(
    Object.entries(of).map(([tenant, count]) => [
      tenantFlow({ class: "training", tenant: tenantId(tenant) }),
      count,
    ]),
  ),
});

test("each next request is of the tenant with the least GPUs for its weight, counting grants", () => {
  const weights = { a: 1, b: 2, c: 4 };
  const waiting = fc.array(
    fc.record({ tenant: fc.constantFrom("a", "b", "c"), count: fc.integer({ min: 1, max: 8 }) }),
    { maxLength: 15 },
  );
  const holding = fc.record({
    a: fc.nat({ max: 9 }),
    b: fc.nat({ max: 9 }),
    c: fc.nat({ max: 9 }),
  });
  fc.assert(
    fc.property(waiting, holding, (drawn, holds) => {
      const requests = drawn.map(({ tenant, count }, at) => request(tenant, at, count));
      const tenants = Object.entries(weights).map(([id, weight]) => rule(id, weight));
      const cursor = drf.open({ requests, tenants }).order(0, held(holds));
      const shares = new Map(
        Object.entries(weights).map(([id, weight]) => [id, holds[id as "a" | "b" | "c"] / weight]),
      );
      const left = new Set(requests);
      for (let next = cursor.next(); next !== undefined; next = cursor.next()) {
        const own = shares.get(next.tenant) ?? NaN;
        for (const other of left) {
          expect(own).toBeLessThanOrEqual(shares.get(other.tenant) ?? NaN);
          if (other.tenant === next.tenant) expect(next.arrival).toBeLessThanOrEqual(other.arrival);
        }
        left.delete(next);
        cursor.noteGrant(next, next.gang.gpus);
        const weight = weights[next.tenant as string as "a" | "b" | "c"];
        shares.set(next.tenant, own + next.gang.gpus / weight);
      }
      expect(left.size).toBe(0);
    }),
  );
});

test("a removed request is not returned, a replaced one once", () => {
  const queue = drf.open({ requests: [request("a", 1), request("b", 2)], tenants: [] });
  queue.add({ ...request("a", 1), priority: 3 });
  queue.remove(request("b", 2).jobId);
  expect(queue.size()).toBe(1);
  const cursor = queue.order(0, held({}));
  expect([cursor.next()?.priority, cursor.next()]).toEqual([3, undefined]);
});
