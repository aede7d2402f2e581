/** @file Plans of training: the best of all where all can be tried, memory, and what does not fit. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { randomFrom } from "../../../lib/random.ts";
import type { PlanModel } from "../../../planning/parallelism/models.ts";
import { planTraining, type TrainingPlan } from "../../../planning/parallelism/plan.ts";
import {
  unitsOf,
  USUAL_WAYS,
  type PlanSite,
  type Unit,
} from "../../../planning/parallelism/site.ts";
import { isHeldEverywhere } from "../../../planning/parallelism/stage-bounds.ts";
import { layerSums } from "../../../planning/parallelism/split.ts";
import { servingSite } from "../../../planning/serving/serving-site.ts";
import { playedStep } from "../../../planning/parallelism/step-time.ts";
import { solverFor } from "../../../solvers/index.ts";
import { allBounds, host, preset, siteOf } from "./sites.ts";
import { caseCount } from "../../support/case-count.ts";

async function planned(model: PlanModel, site: PlanSite, batch: number): Promise<TrainingPlan> {
  const answer = await planTraining({
    model,
    site,
    batch,
    random: randomFrom(1),
    solver: solverFor,
  });
  if (answer.kind === "blocked") throw new Error(answer.message);
  return answer.plan;
}

describe("a plan", () => {
  test("is none over instances of MIG, which reach each other by no link, and the reason names them", async () => {
    const site = siteOf(host("a", 4), host("m", 4, { gpuType: "H100:1g.10gb" }));
    const request = { model: preset("gpt2-1.3b"), site, batch: 64, random: randomFrom(1) };
    expect(await planTraining(request)).toEqual({
      kind: "blocked",
      message: expect.stringMatching(/^H100:1g\.10gb of m is an instance of MIG/) as string,
    });
    const { kind } = servingSite(siteOf(host("m", 1, { gpuType: "H100:1g.10gb" })));
    expect(kind).toBe("blocked");
  });

  test.each([
    { model: "gpt2-1.3b", site: siteOf(host("a", 8)), batch: 64 },
    { model: "opt-6.7b", site: siteOf(host("a", 4), host("b", 2)), batch: 12 },
    {
      model: "llama-7b",
      site: siteOf(
        host("a", 4),
        host("b", 4, { cluster: "b", gpuType: "V100", memoryGiB: 32, teraflops: 125 }),
      ),
      batch: 16,
    },
    { model: "bert-110m", site: siteOf(host("a", 3)), batch: 12 },
  ])("of $model uses every GPU once and fits each card", async ({ model, site, batch }) => {
    const { split, stages, stepMs, parts } = await planned(preset(model), site, batch);
    const gpus = site.hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0);
    expect(split.width * split.stages * split.replicas).toBe(gpus);
    expect(new Set(split.cells.map(({ firstRank }) => firstRank)).size).toBe(split.cells.length);
    expect(split.microBatch * split.microBatches * split.replicas).toBe(batch);
    for (const stage of stages) expect(stage.memoryGiB).toBeLessThanOrEqual(stage.cardGiB);
    expect(split.bounds.at(-1)).toBe(preset(model).layers.length);
    const sum = Object.values(parts).reduce((total, part) => total + part, 0);
    expect(sum).toBeCloseTo(stepMs, 6);
  });

  test("gives the faster GPUs more layers", async () => {
    const site = siteOf(
      host("slow", 1, { gpuType: "V100", teraflops: 125, memoryGiB: 80 }),
      host("fast", 1),
    );
    const { split, stages } = await planned(preset("gpt2-4.2b"), site, 16);
    expect(split.stages).toBe(2);
    const layers = stages.map(({ runs: [[from, to] = [0, 0]] }) => to - from);
    const [first, second] = split.cells.map(({ host: at }) => site.hosts[at]?.id);
    expect(new Set([first, second]).size).toBe(2);
    const [small = 0, large = 0] = first === "slow" ? layers : [...layers].reverse();
    expect(large).toBeGreaterThan(2 * small - 4);
  });

  test("splits layers over NVLink only", async () => {
    const site = siteOf(
      host("a", 2, { inside: USUAL_WAYS.pcie, nvlinkGpus: 1 }),
      host("b", 2, { inside: USUAL_WAYS.pcie, nvlinkGpus: 1 }),
    );
    const { split } = await planned(preset("gpt2-4.2b"), site, 8);
    expect(split.width).toBe(1);
    expect(unitsOf(siteOf(host("a", 4), host("b", 2)), 4)).toBeUndefined();
  });

  test("says what would make a model fit that does not", async () => {
    const site = siteOf(host("a", 2, { gpuType: "V100", memoryGiB: 16 }));
    const answer = await planTraining({
      model: preset("opt-13b"),
      site,
      batch: 8,
      random: randomFrom(1),
    });
    expect(answer).toMatchObject({ kind: "blocked" });
    expect(answer.kind === "blocked" ? answer.message : "").toMatch(
      /a GPU needs [\d.]+ GiB; take \d+ of these GPUs, or cards of at least \d+ GiB/,
    );
  });

  test("what the message of a shortfall asks for does fit", async () => {
    const model = preset("opt-13b");
    const answer = await planTraining({
      model,
      site: siteOf(host("a", 2, { memoryGiB: 16, nvlinkGpus: 1 })),
      batch: 1,
      random: randomFrom(1),
    });
    const count = Number(
      /take (\d+) of/.exec(answer.kind === "blocked" ? answer.message : "")?.[1],
    );
    const more = await planTraining({
      model,
      site: siteOf(host("a", count, { memoryGiB: 16, nvlinkGpus: 1 })),
      batch: 1,
      random: randomFrom(1),
    });
    expect(more.kind).toBe("planned");
  });
});

/** Layers of uneven cost, on few GPUs. */
const anySmall = fc.record({
  flops: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 3, maxLength: 5 }),
  counts: fc.array(fc.integer({ min: 1, max: 2 }), { minLength: 2, maxLength: 3 }),
  isSlow: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
  batch: fc.constantFrom(2, 4, 6),
  outputMiB: fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 5, maxLength: 5 }),
});

type Small = typeof anySmall extends fc.Arbitrary<infer T> ? T : never;

function smallProblem({ flops, counts, isSlow, outputMiB }: Small): {
  model: PlanModel;
  site: PlanSite;
} {
  const layers = flops.map((cost, at) => ({
    name: `l${at}`,
    parameters: cost * 4e6,
    forwardFlops: cost * 1e12,
    outputBytes: (outputMiB[at] ?? 1) * 2 ** 20,
    activationBytes: 2 ** 26,
    tensorSyncs: 0,
  }));
  const hosts = counts.map((count, at) =>
    host(`h${at}`, count, {
      cluster: `c${at % 2}`,
      ...(isSlow[at] === true && { gpuType: "V100", teraflops: 125 }),
    }),
  );
  return { model: { name: "small", sample: "sample", layers, splitOf: 1 }, site: siteOf(...hosts) };
}

/** The shortest step over all degrees, micro-batches, orders of GPUs and bounds. */
function shortest({ model, site }: { model: PlanModel; site: PlanSite }, batch: number): number {
  const sums = layerSums(model);
  const units = unitsOf(site, 1) ?? [];
  let best = Infinity;
  for (let replicas = 1; replicas <= units.length; replicas += 1) {
    const stages = units.length / replicas;
    if (!Number.isInteger(stages) || batch % replicas !== 0 || stages > model.layers.length)
      continue;
    for (let microBatch = 1; microBatch <= batch / replicas; microBatch *= 2) {
      const microBatches = batch / replicas / microBatch;
      if (!Number.isInteger(microBatches)) continue;
      for (const cells of orders(units)) {
        for (const bounds of allBounds(model.layers.length, stages)) {
          const split = {
            ...{ replicas, stages, width: 1, microBatch, microBatches, bounds, cells },
            ...{ isRecomputing: false, isSharded: replicas > 1 },
          };
          if (isHeldEverywhere(split, site, sums))
            best = Math.min(best, playedStep(split, { site, sums }).totalMs);
        }
      }
    }
  }
  return best;
}

function orders(units: readonly Unit[]): readonly (readonly Unit[])[] {
  if (units.length <= 1) return [units];
  return units.flatMap((unit, at) =>
    orders(units.filter((_, other) => other !== at)).map((rest) => [unit, ...rest]),
  );
}

test("a plan is never better than the best of all, and within 2 % of it on average", async () => {
  const ratios: number[] = [];
  await fc.assert(
    fc.asyncProperty(anySmall, async (small) => {
      const problem = smallProblem(small);
      const best = shortest(problem, small.batch);
      // No degrees divide the GPUs and the batch.
      fc.pre(best < Infinity);
      const { stepMs } = await planned(problem.model, problem.site, small.batch);
      expect(stepMs).toBeGreaterThanOrEqual(best * (1 - 1e-9));
      ratios.push(stepMs / best);
    }),
    { numRuns: caseCount(30) },
  );
  const mean = ratios.reduce((sum, ratio) => sum + ratio, 0) / ratios.length;
  expect(mean).toBeLessThan(1.02);
});
