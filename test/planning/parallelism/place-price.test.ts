/** @file Prices of places: never below the plan that the job gets there, equal for equal places, and within their work. */
import fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { planTraining } from "../../../planning/parallelism/plan.ts";
import { placePrices } from "../../../planning/parallelism/place-price.ts";
import type * as StageBounds from "../../../planning/parallelism/stage-bounds.ts";
import type { PlanSite } from "../../../planning/parallelism/site.ts";
import { randomFrom } from "../../../lib/random.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import { MODEL_PRESETS } from "../../../domain/model/model-presets.ts";
import { caseCount } from "../../support/case-count.ts";
import { host, preset, siteOf } from "./sites.ts";

/** What was done, counted by the calls of the steps themselves. */
const done = vi.hoisted(() => ({ cells: 0, calls: 0 }));

vi.mock("../../../planning/parallelism/stage-bounds.ts", async (importOriginal) => {
  const real = await importOriginal<typeof StageBounds>();
  const note = (cells: number): void => {
    done.cells += cells;
    done.calls += 1;
  };
  return {
    ...real,
    stageBounds: (...[split, site, sums]: Parameters<typeof StageBounds.stageBounds>) => {
      note(split.cells.length + sums.flops.length - 1);
      return real.stageBounds(split, site, sums);
    },
    isHeldEverywhere: (...[split, site, sums]: Parameters<typeof StageBounds.isHeldEverywhere>) => {
      note(split.cells.length);
      return real.isHeldEverywhere(split, site, sums);
    },
  };
});

afterEach(() => {
  done.cells = 0;
  done.calls = 0;
});

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
    "with $name is no less than the step of the plan there, and at most 1.7 times as much",
    async ({ site }) => {
      const [price = 0] = pricesOf(on(25, 4, 4), site).slice(1);
      const stepMs = await planned(site);
      expect(price).toBeGreaterThanOrEqual(stepMs * (1 - 1e-9));
      expect(price).toBeLessThan(1.7 * stepMs);
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

  test.each([
    { work: 300, want: "all places, by fewer splits", wantPriced: 3 },
    { work: 90, want: "the first place, by one split", wantPriced: 1 },
    { work: 10, want: "no place", wantPriced: 0 },
  ])("with $work cells of work is known of $want", ({ work: given, wantPriced }) => {
    const sites = [on(1, 8, 8), on(2, 8, 8), on(4, 8, 8)];
    const whole = placePrices({ model: MODEL, batch: BATCH, sites, work: WORK });
    const { stepMs, work } = placePrices({ model: MODEL, batch: BATCH, sites, work: given });
    expect(work).toBeLessThan(whole.work / 10);
    expect(stepMs.filter((price) => price !== undefined)).toHaveLength(wantPriced);
    for (const [at, price] of stepMs.entries())
      expect(price ?? Infinity).toBeGreaterThanOrEqual(whole.stepMs[at] ?? 0);
  });
});

/** Shapes of which few fit anywhere, on hosts of as many kinds as there are. */
const questions = fc.record({
  layers: fc.integer({ min: 1, max: 1_000 }),
  hidden: fc.constantFrom(512, 4_096, 65_536),
  experts: fc.constantFrom(1, 8, 256),
  batch: fc.constantFrom(1, 64, 5_040, 2 ** 40),
  work: fc.integer({ min: 0, max: 3_000 }),
  framework: fc.constantFrom(undefined, "megatron" as const, "fsdp2" as const),
  sites: fc.array(
    fc.record({
      gpus: fc.constantFrom(1, 3, 8),
      count: fc.integer({ min: 1, max: 8 }),
      type: fc.constantFrom("A", "B", "C", "D", "E"),
      memoryGiB: fc.constantFrom(8, 80),
      isMixed: fc.boolean(),
    }),
    { minLength: 1, maxLength: 12 },
  ),
});

test("the work that is done is what is counted, and at most what is given and one split more, whatever fits", () => {
  const shape = MODEL_PRESETS.get("gpt2-1.3b");
  if (shape === undefined) throw new Error("no preset");
  fc.assert(
    fc.property(questions, ({ layers, hidden, experts, batch, work, framework, sites }) => {
      const heads = hidden / 128;
      const model = presetModel("drawn", {
        ...shape,
        layers,
        hidden,
        heads,
        keyValueHeads: heads,
        headSize: 128,
        feedForward: 4 * hidden,
        ...(experts > 1 && {
          experts: {
            count: experts,
            chosen: 2,
            feedForward: hidden,
            sharedFeedForward: 0,
            denseLayers: 0,
          },
        }),
      });
      const places = sites.map(({ gpus, count, type, memoryGiB, isMixed }) =>
        siteOf(
          ...Array.from({ length: count }, (_, at) =>
            host(`h${String(at)}`, gpus, {
              gpuType: type,
              memoryGiB: isMixed && at === 0 ? memoryGiB + 1 : memoryGiB,
            }),
          ),
        ),
      );
      done.cells = 0;
      done.calls = 0;
      const found = placePrices({
        model,
        batch,
        sites: places,
        work,
        ...(framework !== undefined && { framework }),
      });
      const mostGpus = Math.max(...sites.map(({ gpus, count }) => gpus * count));
      const hosts = sites.reduce((sum, { count }) => sum + count, 0);
      const split = layers + 2 + 2 * mostGpus + 16;
      expect(done.cells).toBeLessThanOrEqual(found.work);
      // The model and the sites are there already, and each kind has sums of the layers.
      expect(found.work).toBeLessThanOrEqual(
        Math.max(work, layers + 2 + hosts) + layers + 2 + split + experts,
      );
    }),
    { numRuns: caseCount(150) },
  );
});

test("a model that fits nowhere is given up when the work is used up, and is not searched for again on another kind", () => {
  const model = preset("llama-70b");
  const deep = { ...model, layers: Array.from({ length: 12 }, () => model.layers).flat() };
  const sites = ["A", "B", "C", "D", "E", "F"].map((gpuType) =>
    siteOf(
      ...Array.from({ length: 4 }, (_, at) => host(`h${String(at)}`, 8, { gpuType, memoryGiB: 8 })),
    ),
  );
  const { stepMs, work } = placePrices({ model: deep, batch: 5_040, sites, work: 5_000 });
  expect(stepMs).toEqual(sites.map(() => undefined));
  expect(work).toBeLessThan(5_000 + 2 * deep.layers.length);
  expect(done.calls).toBeLessThan(12);
});
