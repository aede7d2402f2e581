/** @file What lanes cost, measured: figures that a planner can take, whatever else the machine does meanwhile. */

import { availableParallelism } from "node:os";
import { describe, expect, it } from "vitest";
import { LANE_COSTS } from "../../../activities/serving-planner.ts";
import { measureLaneCosts } from "../../../workers/serving/lane-costs.ts";

describe("the costs of lanes", () => {
  it.each([1, 2])("of %i lanes are none of them below nothing", async (lanes) => {
    const costs = await measureLaneCosts(lanes);
    for (const ms of [costs.requestMs, costs.partMs, costs.handMs]) {
      expect(ms).toBeGreaterThanOrEqual(0);
      expect(ms).toBeLessThan(1_000);
    }
    expect(costs.handMsPerByte).toBeGreaterThan(0);
    expect(costs.besideFactor).toBeGreaterThanOrEqual(1);
    expect(costs.besideFactor).toBeLessThanOrEqual(Math.max(lanes, LANE_COSTS.besideFactor));
    expect(costs.atOnce).toBe(availableParallelism());
  });
});
