/**
 * @file All floods on one fleet, one after the other: each finds what those before have left inside, outside and on its way. Another tenant's jobs
 * end during each and afterwards, and a worker that has to take the fleet's run over at the end can.
 */

import { afterAll, beforeAll, expect, it } from "vitest";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";
import {
  expectAudited,
  expectEnded,
  FLOOD_TEST_MS,
  flooded,
  FLOODED_FLEET,
  FLOODS,
} from "./flooded-fleet.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLOODED_FLEET });
});
afterAll(() => world.stop());

it.each(FLOODS)(
  "another tenant's job ends during and after $count $flood",
  async (order) => {
    const times = await flooded(world, order);
    expectEnded(times);
    if (order.flood === "junk") await expectAudited(world, times);
  },
  FLOOD_TEST_MS,
);

/** One whose history takes longer than a workflow task may is given up and begun anew, again and again: then the fleet never answers. */
it("a new worker takes the fleet over within a workflow task", async () => {
  await world.kill("fleet");
  await world.start("fleet", ["worker", "--role", "fleet"]);
  const ledger = await world.until("the fleet answers", () => true);
  expect(ledger.leases.size).toBeLessThan(33);
});
