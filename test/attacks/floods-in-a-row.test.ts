/**
 * @file All floods on one fleet, one after the other: each finds what those before have left inside, outside and on its way. Another tenant's jobs
 * end during each and soon afterwards, and a worker that has to take the fleet's run over at the end can.
 */

import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { startWorld, type World } from "../support/world.ts";
import { flooded, FLOODED_FLEET, FLOODS } from "./flooded-fleet.ts";

/** The bar of 10 s is that of `bench floods`, on quiet cores. */
const DURING_MS = 90_000;
const AFTER_MS = 30_000;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: inject("temporalAddress"), fleetYaml: FLOODED_FLEET });
});
afterAll(() => world.stop());

it.each(FLOODS)(
  "another tenant's job ends during and after $count $flood",
  async (order) => {
    const { duringMs, afterMs } = await flooded(world, order);
    expect(Math.max(...duringMs)).toBeLessThan(DURING_MS);
    expect(Math.min(...afterMs)).toBeLessThan(AFTER_MS);
  },
  240_000,
);

it("a new worker takes the fleet over within a workflow task", async () => {
  await world.kill("fleet");
  await world.start("fleet", ["worker", "--role", "fleet"]);
  const startedAtMs = performance.now();
  const ledger = await world.until("the fleet answers", () => true, 60_000);
  expect(ledger.leases.size).toBeLessThan(33);
  expect(performance.now() - startedAtMs).toBeLessThan(60_000);
});
