/** @file GPUs that may stay idle: a number that divides nothing well is not used whole, and every candidate keeps the law of links. */
import { describe, expect, test } from "vitest";
import { linkFloorMs } from "../../../bench/plan/link-floor.ts";
import { MEGATRON_CORE } from "../../../planning/parallelism/framework.ts";
import { planTraining, type TrainingPlan } from "../../../planning/parallelism/plan.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
import { randomFrom } from "../../../lib/random.ts";
import { host, preset, siteOf } from "./sites.ts";

const MODEL = preset("opt-13b");
const { gradientBytes } = MEGATRON_CORE;

const site: PlanSite = {
  ...siteOf(host("h0", 8), host("h1", 8), host("h2", 8), host("h3", 7)),
  fabric: () => ({ gbs: 12.5, latencyMs: 0.05 }),
};

async function planned(fewestGpus?: number): Promise<{ plan: TrainingPlan; least: number }> {
  let least = Infinity;
  const answer = await planTraining({
    model: MODEL,
    site,
    batch: 64,
    random: randomFrom(1, "plan"),
    ...(fewestGpus !== undefined && { fewestGpus }),
    onCandidate: (split, { totalMs }) => {
      const floorMs = linkFloorMs({ model: MODEL, site, split, gradientBytes });
      least = Math.min(least, totalMs / floorMs);
    },
  });
  if (answer.kind === "blocked") throw new Error(answer.message);
  return { plan: answer.plan, least };
}

const usedBy = ({ split }: TrainingPlan): number => split.cells.length * split.width;

describe("of 31 GPUs", () => {
  test("all are used without consent; with it fewer take a shorter step by a tenth", async () => {
    const whole = await planned();
    const spared = await planned(16);
    expect(usedBy(whole.plan)).toBe(31);
    expect(usedBy(spared.plan)).toBeLessThan(31);
    expect(usedBy(spared.plan)).toBeGreaterThanOrEqual(16);
    expect(spared.plan.stepMs).toBeLessThan(0.9 * whole.plan.stepMs);
    const ranks = spared.plan.split.cells.map(({ firstRank }) => firstRank);
    expect(new Set(ranks).size).toBe(ranks.length);
    expect(spared.least).toBeGreaterThanOrEqual(1 - 1e-9);
  });

  test("no fewer are used than was said", async () => {
    const { plan } = await planned(30);
    expect(usedBy(plan)).toBeGreaterThanOrEqual(30);
  });
});
