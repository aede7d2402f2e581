/** @file Context parallelism: what units that share out a sequence keep, send and print, and when sequences are shared out. */

import fc from "fast-check";
import { describe, expect, it, test } from "vitest";
import { CHECKED_FLEETS } from "../../../bench/plan/checked-fleets.ts";
import { megatronFlags, publishedBytes } from "../../../bench/plan/published-memory.ts";
import { MODEL_PRESETS } from "../../../domain/model/model-presets.ts";
import type { TransformerShape } from "../../../domain/model/transformer-shape.ts";
import { randomFrom, shuffled } from "../../../lib/random.ts";
import { FSDP2 } from "../../../planning/parallelism/framework.ts";
import { memoryGiB } from "../../../planning/parallelism/memory-parts.ts";
import type { PlanModel } from "../../../planning/parallelism/models.ts";
import { planDocument, planLine } from "../../../planning/parallelism/plan-document.ts";
import {
  planTraining,
  type PlanAnswer,
  type PlanRequest,
  type TrainingPlan,
} from "../../../planning/parallelism/plan.ts";
import { unitsOf, type PlanSite } from "../../../planning/parallelism/site.ts";
import { layerSums, type Split } from "../../../planning/parallelism/split.ts";
import { stageMemory } from "../../../planning/parallelism/stage-memory.ts";
import { playedStep, stepTime } from "../../../planning/parallelism/step-time.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import { caseCount } from "../../support/case-count.ts";
import { expectStep } from "./expect-step.ts";
import { host, siteOf } from "./sites.ts";

const GIB = 2 ** 30;

const H100 = { gpuType: "H100", teraflops: 989, inside: { gbs: 337, latencyMs: 0.01 } };

/** A preset with longer sequences than its own. */
function long(name: string, sequence: number): PlanModel & { readonly shape: TransformerShape } {
  const shape = MODEL_PRESETS.get(name);
  if (shape === undefined) throw new Error(name);
  const longer = { ...shape, sequence };
  return { ...presetModel(name, longer), shape: longer };
}

const joined = (hosts: number, gpus: number): PlanSite => ({
  ...siteOf(...Array.from({ length: hosts }, (_, at) => host(`h${String(at)}`, gpus, H100))),
  fabric: () => ({ gbs: 50, latencyMs: 0.02 }),
});

const answerOf = (
  model: PlanModel,
  site: PlanSite,
  of: Partial<PlanRequest> = {},
): Promise<PlanAnswer> => planTraining({ model, site, batch: 8, random: randomFrom(1), ...of });

async function planned(...of: Parameters<typeof answerOf>): Promise<TrainingPlan> {
  const answer = await answerOf(...of);
  if (answer.kind === "blocked") throw new Error(answer.message);
  return answer.plan;
}

const LLAMA = long("llama-3-8b", 32_768);

function splitOf(model: PlanModel, site: PlanSite, of: Partial<Split>): Split {
  const { replicas = 8, stages = 1, width = 1 } = of;
  return {
    ...{ replicas, stages, width, microBatch: 1, microBatches: 4 },
    ...{ isRecomputing: false, isSharded: true },
    bounds: Array.from({ length: stages + 1 }, (_, at) =>
      Math.round((at * model.layers.length) / stages),
    ),
    cells: (unitsOf(site, width) ?? []).slice(0, stages * replicas),
    ...of,
  };
}

test("a unit keeps its share of the activations, all parameters, and four buffers of keys and values", () => {
  const sums = layerSums(LLAMA);
  const site = joined(1, 8);
  const [alone, shared] = [
    stageMemory(splitOf(LLAMA, site, {}), 0, sums),
    stageMemory(splitOf(LLAMA, site, { contexts: 8 }), 0, sums),
  ];
  expect(shared.weightsGiB).toBe(alone.weightsGiB);
  expect(shared.optimizerGiB).toBe(alone.optimizerGiB);
  // Eight heads of 128 numbers for keys and as many for values, in 16 bits.
  const buffers = 4 * 2 * 8 * 128 * 2 * (32_768 / 8);
  expect(shared.activationsGiB).toBeCloseTo(alone.activationsGiB / 8 + buffers / GIB, 9);
});

test("keys and values of all others pass each port once forward and twice backward", () => {
  const sums = layerSums(LLAMA);
  const site = joined(1, 8);
  const { parts } = stepTime(splitOf(LLAMA, site, { contexts: 8 }), { site, sums });
  const around = (7 / 8) * 32 * 32_768 * 2 * 8 * 128 * 2;
  const ms = 4 * 3 * (around / (337 * 1e6) + 32 * 7 * 0.01);
  expect(parts.exchangeMs).toBeCloseTo(ms, 6);
});

test("between hosts each card carries one edge of the ring, whatever units of the host are in it", () => {
  const sums = layerSums(LLAMA);
  const site = joined(2, 4);
  const { parts } = playedStep(splitOf(LLAMA, site, { contexts: 8 }), { site, sums });
  const around = (7 / 8) * 32 * 32_768 * 2 * 8 * 128 * 2;
  expect(parts.exchangeMs).toBeCloseTo(4 * 3 * (around / (50 * 1e6) + 32 * 7 * 0.02), 4);
});

describe("long sequences", () => {
  // One GPU a host: layers cannot be split, and activations of a whole sequence fit on no card.
  const single = joined(8, 1);

  it.each([
    ["llama-3-8b", 131_072, "8 × 1", single, 1],
    ["llama-3-8b", 131_072, "4 × 2", joined(4, 2), 1],
    ["llama-7b", 65_536, "8 × 1", single, 2],
    ["llama-3-8b", 32_768, "8 × 1", single, 2],
  ] as const)("%s with %i tokens on %s takes less than half", async (...drawn) => {
    const [name, sequence, , site, batch] = drawn;
    const model = long(name, sequence);
    const without = await answerOf(model, site, { batch, fixed: { contexts: 1 } });
    const plan = await planned(model, site, { batch });
    expect(plan.split.contexts).toBeGreaterThan(1);
    expect(plan.stepMs).toBeLessThan(
      without.kind === "blocked" ? Infinity : without.plan.stepMs / 2,
    );
    const document = planDocument(plan, site, model.shape);
    const flags = megatronFlags(document.arguments.megatron);
    expect(flags["context-parallel-size"]).toBe(String(plan.split.contexts));
    for (const [stage, { memory, memoryGiB: need, cardGiB }] of plan.stages.entries()) {
      expect(need).toBeLessThanOrEqual(cardGiB);
      const wanted = publishedBytes(flags, stage, document.dataParallel) / GIB;
      expect((need - memory.reserveGiB - memory.workingGiB) / wanted).toBeGreaterThanOrEqual(1);
      if (stage === 0)
        expect((need - memory.reserveGiB - memory.workingGiB) / wanted).toBeLessThanOrEqual(1.08);
    }
  });

  test("that fit on no card find a plan where they are shared out", async () => {
    const [model, site] = [long("llama-3-8b", 262_144), joined(8, 2)];
    const without = await answerOf(model, site, { batch: 1, fixed: { contexts: 1 } });
    expect(without.kind).toBe("blocked");
    const { split, stages } = await planned(model, site, { batch: 1 });
    expect(split.contexts).toBeGreaterThan(1);
    for (const { memoryGiB: need, cardGiB } of stages) expect(need).toBeLessThanOrEqual(cardGiB);
  });

  test("that no number of parts makes fit are refused with cards that would do", async () => {
    const site = joined(2, 1);
    const model = long("llama-3-8b", 131_072);
    const answer = await answerOf(model, site, { batch: 1 });
    const words = answer.kind === "blocked" ? answer.message : "";
    const needed = Number(/needs ([0-9.]+) GiB/.exec(words)?.[1]);
    const enough = {
      ...site,
      hosts: site.hosts.map((each) => ({ ...each, memoryGiB: needed + 0.1 })),
    };
    expect((await planned(model, enough, { batch: 1 })).split.cells.length).toBeGreaterThan(0);
  });

  it("are not shared out where nothing is gained", async () => {
    const { split } = await planned(long("gpt2-1.3b", 8_192), joined(1, 8), { batch: 64 });
    expect(split.contexts).toBeUndefined();
  });
});

test("ranks of a context follow one another in Megatron-LM's order, and groups cover all of them", async () => {
  const model = long("llama-3-8b", 65_536);
  const site = joined(2, 8);
  const fixed = { width: 2, stages: 2, replicas: 4, contexts: 2 };
  const plan = await planned(model, site, { fixed, batch: 4 });
  const document = planDocument(plan, site, model.shape);
  expect(document).toMatchObject({ contextParallel: 2, dataParallel: 2, tensorParallel: 2 });
  expect(planLine(plan)).toMatch(/^DP 2 × CP 2 × PP 2/);
  const numbersOf = (group: readonly number[]): readonly number[] =>
    group.map((rank) => document.ranks[rank]?.megatronRank ?? -1);
  expect(document.groups.context).toHaveLength(8);
  expect(document.groups.context.flat().sort((a, b) => a - b)).toEqual([...Array(16).keys()]);
  // Tensor ranks come first, then those of the context, then data.
  for (const group of document.groups.context) {
    const [a = 0, b = 0] = numbersOf(group);
    expect(b - a).toBe(2);
    expect(a % 4).toBeLessThan(2);
  }
  for (const group of document.groups.data) {
    const [a = 0, b = 0] = numbersOf(group);
    expect(b - a).toBe(4);
  }
  for (const { replica, contextRank, tensorRank, megatronRank, stage } of document.ranks)
    expect(megatronRank).toBe(tensorRank + 2 * (contextRank + 2 * (replica + 2 * stage)));
  expect(document.arguments.deepspeed).toBeUndefined();
});

test("FSDP2 shares sequences out over a dimension of its mesh", async () => {
  const model = long("llama-3-8b", 131_072);
  const site = joined(2, 8);
  const plan = await planned(model, site, { framework: "fsdp2", batch: 2 });
  const { contexts = 1, replicas } = plan.split;
  expect(contexts).toBeGreaterThanOrEqual(8);
  const settings = planDocument(plan, site, model.shape).arguments.fsdp2;
  expect(settings?.mesh).toEqual([replicas / contexts, contexts]);
  expect(settings?.mesh_dim_names).toEqual(["dp_shard", "cp"]);
  const sums = layerSums(model, FSDP2);
  expect(memoryGiB(stageMemory(plan.split, 0, sums))).toBeLessThanOrEqual(80);
});

/** Mixtral's kind, where sequences and experts are shared out at once. */
const EXPERTS = { count: 8, chosen: 2, feedForward: 14_336, sharedFeedForward: 0, denseLayers: 0 };
const MIXED = presetModel("mixed", { ...LLAMA.shape, layers: 8, experts: EXPERTS });
const PLAIN = presetModel("plain", { ...LLAMA.shape, layers: 12 });

const anySplit = fc.record({
  seed: fc.integer({ min: 1, max: 1e6 }),
  fleet: fc.constantFrom(...CHECKED_FLEETS.keys()),
  stages: fc.constantFrom(1, 2, 3),
  runs: fc.constantFrom(1, 2),
  width: fc.constantFrom(1, 2),
  contexts: fc.constantFrom(2, 4),
  experts: fc.constantFrom(1, 1, 2, 8),
  microBatch: fc.integer({ min: 1, max: 2 }),
  groups: fc.integer({ min: 1, max: 2 }),
  isSharded: fc.boolean(),
  isRecomputing: fc.boolean(),
});

test("any split that shares out sequences: link's bytes ÷ rate ≤ played step and bound, and the played step is the simulated one", () => {
  fc.assert(
    fc.property(anySplit, ({ seed, fleet, groups, experts, runs: drawn, ...rest }) => {
      const { stages, width, contexts } = rest;
      const site = CHECKED_FLEETS.get(fleet);
      if (site === undefined) throw new Error(fleet);
      const units = unitsOf(site, width) ?? [];
      const together = Math.max(contexts, experts);
      const replicas = Math.floor(units.length / stages / together) * together;
      fc.pre(replicas > 0);
      const model = experts > 1 ? MIXED : PLAIN;
      const runs = stages > 1 && experts === 1 ? drawn : 1;
      fc.pre(experts === 1 || new Set(site.hosts.map(({ teraflops }) => teraflops)).size === 1);
      const count = stages * runs;
      const blocks = (model.layers.length - 2) / count;
      const split = splitOf(model, site, {
        ...{ ...rest, replicas, microBatches: groups * stages },
        ...(experts > 1 && { experts }),
        ...(runs > 1 && { runs }),
        cells: shuffled(units, randomFrom(seed)).slice(0, stages * replicas),
        bounds: Array.from({ length: count + 1 }, (_, at) =>
          at === 0 ? 0 : at === count ? model.layers.length : 1 + Math.round(at * blocks),
        ),
      });
      expectStep(split, { model, site, within: 1e-5 });
    }),
    { numRuns: caseCount(80) },
  );
});
