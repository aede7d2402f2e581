/** @file Floods of a live fleet: another tenant's jobs of one GPU end during each, and afterwards. How soon is a bar of `bench floods`. */

import { afterEach, beforeEach, it } from "vitest";
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
beforeEach(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLOODED_FLEET });
});
afterEach(() => world.stop());

it.each(FLOODS)(
  "another tenant's job ends during and after $count $flood",
  async (order) => {
    const times = await flooded(world, order);
    expectEnded(times);
    if (order.flood === "junk") await expectAudited(world, times);
  },
  FLOOD_TEST_MS,
);
