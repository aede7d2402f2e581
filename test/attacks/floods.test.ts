/** @file Floods of a live fleet: another tenant's jobs of one GPU end during each, and soon afterwards. How soon exactly is a bar of `bench floods`. */

import { afterEach, beforeEach, expect, inject, it } from "vitest";
import { startWorld, type World } from "../support/world.ts";
import { flooded, FLOODED_FLEET, FLOODS } from "./flooded-fleet.ts";

/** A flood of junk delays the others for as long as it queues at the server (docs/decisions/0062-write-ahead-log.md). */
const DURING_MS = 120_000;
const AFTER_MS = 30_000;

let world: World;
beforeEach(async () => {
  world = await startWorld({ address: inject("temporalAddress"), fleetYaml: FLOODED_FLEET });
});
afterEach(() => world.stop());

it.each(FLOODS)(
  "another tenant's job ends during and after $count $flood",
  async (order) => {
    const times = await flooded(world, order);
    expect(Math.max(...times.duringMs)).toBeLessThan(DURING_MS);
    expect(Math.min(...times.afterMs)).toBeLessThan(AFTER_MS);
  },
  240_000,
);
