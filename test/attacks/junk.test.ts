/** @file Thousands of signals of junk to one fleet: its run ends, what they said is counted, and another tenant's jobs end during and after it. */

import { afterAll, beforeAll, expect, inject, it } from "vitest";
import { startWorld, type World } from "../support/world.ts";
import { flooded, FLOODED_FLEET } from "./flooded-fleet.ts";

/** A flood of junk delays the others for as long as it queues at the server (docs/decisions/0062-write-ahead-log.md). */
const DURING_MS = 120_000;
const AFTER_MS = 15_000;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: inject("temporalAddress"), fleetYaml: FLOODED_FLEET });
});
afterAll(() => world.stop());

it.each([5_000, 10_000])(
  "%i signals",
  async (count) => {
    const { taken, duringMs, afterMs } = await flooded(world, {
      flood: "junk",
      count,
      inFlight: 50,
    });
    expect(taken).toBeGreaterThan(0.9 * count);
    expect(Math.max(...duringMs)).toBeLessThan(DURING_MS);
    expect(Math.min(...afterMs)).toBeLessThan(AFTER_MS);
    const { deadLetters } = await world.ledger();
    expect(deadLetters.length).toBeLessThanOrEqual(50);
    expect(deadLetters.reduce((sum, { times = 1 }) => sum + times, 0)).toBeGreaterThan(0.9 * count);
  },
  400_000,
);
