/** @file The best of all splits: what floors leave out is not missed, and the search finds it on drawn sites. */

import { expect, test } from "vitest";
import { drawSplitCase, judgeSplit } from "../../../bench/plan/splits.ts";
import { bestOfEverySplit } from "../../../bench/rivals/parallelism/every-split.ts";
import { randomFrom } from "../../../lib/random.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
import { host, preset, siteOf } from "../../planning/parallelism/sites.ts";

const SITE: PlanSite = {
  ...siteOf(host("a/h0", 2), host("b/h0", 2, { cluster: "b" })),
  between: () => ({ gbs: 1.25, latencyMs: 1 }),
};

test("floors leave nothing out: a step that may hardly be longer is found again", () => {
  const of = { model: preset("gpt2-350m"), site: SITE, batch: 8 };
  const { best, played } = bestOfEverySplit(of);
  if (best === undefined) throw new Error("nothing fits");
  expect(played).toBeGreaterThan(10);
  const again = bestOfEverySplit(of, best.stepMs * (1 + 1e-9));
  expect(again.best?.stepMs).toBeCloseTo(best.stepMs, 9);
  expect(again.fitting).toBeGreaterThan(0);
  expect(bestOfEverySplit(of, best.stepMs * 0.999).best).toBeUndefined();
});

test.each([
  [5, 0],
  [5, 40],
  [5, 57],
  // A layer from the first stage to the last but one; one run of layers a stage in place of four.
  [70_011, 3],
  [70_011, 13],
])("a drawn case (seed %i, %i) is planned within a hundredth of the best", async (seed, draw) => {
  const { name, ...of } = drawSplitCase(randomFrom(seed, `split ${String(draw)}`));
  const judged = await judgeSplit(name, of);
  expect(judged?.rate).toBeGreaterThanOrEqual(0.99);
});
