/** @file Plans of a few GPUs: where an embedding is tied and links are slow, the first and the last stage of a pipeline lie on one host. */

import { expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import { planTraining } from "../../../planning/parallelism/plan.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
import { host, preset, siteOf } from "./sites.ts";

const SLOW: PlanSite = {
  ...siteOf(host("a/h0", 2), host("b/h0", 2, { cluster: "b" })),
  between: () => ({ gbs: 0.3, latencyMs: 1 }),
};

test("a tied embedding is summed inside a host", async () => {
  const answer = await planTraining({
    ...{ model: preset("gpt2-1.3b"), site: SLOW, batch: 32, random: randomFrom(1, "plan") },
    fixed: { width: 1, stages: 4 },
  });
  if (answer.kind !== "planned") throw new Error(answer.message);
  const { cells } = answer.plan.split;
  expect(cells[0]?.host).toBe(cells.at(-1)?.host);
});
