/** @file Prices of places: never below the plan that the job gets there, equal for equal places, and within their work. */
import { describe, expect, test } from "vitest";
import { planTraining } from "../../../planning/parallelism/plan.ts";
import { placePrices } from "../../../planning/parallelism/place-price.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
import { randomFrom } from "../../../lib/random.ts";
import { host, preset, siteOf } from "./sites.ts";

const MODEL = preset("gpt2-1.3b");
const BATCH = 64;
const WORK = 1e6;

const on = (gbs: number, ...counts: readonly number[]): PlanSite => ({
  ...siteOf(...counts.map((gpus, at) => host(`h${String(at)}`, gpus))),
  fabric: () => ({ gbs, latencyMs: 0.05 }),
});

const pricesOf = (...sites: readonly PlanSite[]): readonly (number | undefined)[] =>
  placePrices({ model: MODEL, batch: BATCH, sites, work: WORK }).stepMs;

async function planned(site: PlanSite): Promise<number> {
  const random = randomFrom(1, "plan");
  const answer = await planTraining({ model: MODEL, site, batch: BATCH, random });
  return answer.kind === "planned" ? answer.plan.stepMs : Infinity;
}

describe("the price of a place", () => {
  test.each([
    { name: "even hosts", site: on(12.5, 4, 4) },
    { name: "uneven hosts", site: on(12.5, 5, 3) },
    { name: "slow Ethernet", site: on(1, 4, 4) },
  ])(
    "with $name is no less than the step of the plan there, and at most half as much again",
    async ({ site }) => {
      const [price = 0] = pricesOf(on(25, 4, 4), site).slice(1);
      const stepMs = await planned(site);
      expect(price).toBeGreaterThanOrEqual(stepMs * (1 - 1e-9));
      expect(price).toBeLessThan(1.5 * stepMs);
    },
  );

  test("is the same for equal places, and less where the fabric is faster", () => {
    const [slow = 0, again, fast = 0] = pricesOf(on(1, 4, 4), on(1, 4, 4), on(25, 4, 4));
    expect(again).toBe(slow);
    expect(fast).toBeLessThan(slow);
  });

  test("is unknown where the model does not fit, or the batch has no share for each pipeline", () => {
    const small = siteOf(host("h0", 2, { memoryGiB: 8 }));
    const work = { batch: BATCH, work: WORK };
    expect(placePrices({ ...work, model: preset("llama-70b"), sites: [small] }).stepMs).toEqual([
      undefined,
    ]);
  });

  test("costs no more work than is given, but for the last choice of degrees", () => {
    const sites = [on(1, 8, 8), on(2, 8, 8), on(4, 8, 8)];
    const whole = placePrices({ model: MODEL, batch: BATCH, sites, work: WORK });
    const { stepMs, work } = placePrices({ model: MODEL, batch: BATCH, sites, work: 300 });
    expect(work).toBeLessThan(whole.work / 10);
    expect(stepMs).toEqual([expect.any(Number), undefined, undefined]);
  });
});
