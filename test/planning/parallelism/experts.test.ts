/** @file Mixtures of experts: what replicas that share experts out keep, send and sum, and which degree is chosen. */

import fc from "fast-check";
import { expect, test } from "vitest";
import { CHECKED_FLEETS } from "../../../bench/plan/checked-fleets.ts";
import { simulateStep } from "../../../bench/plan/flow-simulation.ts";
import { linkFloorMs } from "../../../bench/plan/link-floor.ts";
import { simulatedPlan } from "../../../bench/plan/simulated-plan.ts";
import type { TransformerShape } from "../../../domain/model/transformer-shape.ts";
import { randomFrom, shuffled } from "../../../lib/random.ts";
import { MEGATRON_CORE } from "../../../planning/parallelism/framework.ts";
import { planDocument } from "../../../planning/parallelism/plan-document.ts";
import {
  planTraining,
  type PlanRequest,
  type TrainingPlan,
} from "../../../planning/parallelism/plan.ts";
import { unitsOf, type PlanSite } from "../../../planning/parallelism/site.ts";
import { layerSums, type Split } from "../../../planning/parallelism/split.ts";
import { stageMemory } from "../../../planning/parallelism/stage-memory.ts";
import { playedStep, stepTime } from "../../../planning/parallelism/step-time.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import { caseCount } from "../../support/case-count.ts";
import { host, siteOf } from "./sites.ts";

const GIB = 2 ** 30;
const ROUNDING = 1e-9;
const { gradientBytes } = MEGATRON_CORE;

/** Mixtral's widths with eight blocks: 8 experts, 2 of each token. */
const SHAPE: TransformerShape = {
  family: "mixtral",
  layers: 8,
  hidden: 4096,
  heads: 32,
  keyValueHeads: 8,
  headSize: 128,
  feedForward: 14336,
  vocabulary: 32000,
  positions: 0,
  sequence: 4096,
  activation: "swiglu",
  norm: "rms",
  normEpsilon: 1e-5,
  biases: "none",
  isTied: false,
  isEncoder: false,
  ropeBase: 1e6,
  experts: { count: 8, chosen: 2, feedForward: 14336, sharedFeedForward: 0, denseLayers: 0 },
};
const MODEL = presetModel("eight blocks of mixtral", SHAPE);
const EXPERT_PARAMETERS = 8 * 3 * 4096 * 14336;

const FAST = { gbs: 300, latencyMs: 0.005 };
const hosts = (count: number, gpus = 8): PlanSite => ({
  ...siteOf(...Array.from({ length: count }, (_, at) => host(`h${at}`, gpus, { inside: FAST }))),
  fabric: () => ({ gbs: 25, latencyMs: 0.01 }),
});

const splitOn = (site: PlanSite, of: Partial<Split>): Split => {
  const { replicas = 8, stages = 1, width = 1 } = of;
  return {
    ...{ replicas, stages, width, microBatch: 1, microBatches: 4 },
    ...{ isRecomputing: false, isSharded: true },
    bounds: Array.from({ length: stages + 1 }, (_, at) =>
      Math.round((at * MODEL.layers.length) / stages),
    ),
    cells: (unitsOf(site, width) ?? []).slice(0, stages * replicas),
    ...of,
  };
};

async function planned(site: PlanSite, of: Partial<PlanRequest> = {}): Promise<TrainingPlan> {
  const answer = await planTraining({
    model: MODEL,
    site,
    batch: 64,
    random: randomFrom(1),
    ...of,
  });
  if (answer.kind === "blocked") throw new Error(answer.message);
  return answer.plan;
}

test("a replica keeps its part of the experts, and their state is divided by the replicas that have the same", () => {
  const sums = layerSums(MODEL);
  const site = hosts(1);
  const [all, shared] = [
    stageMemory(splitOn(site, {}), 0, sums),
    stageMemory(splitOn(site, { experts: 4 }), 0, sums),
  ];
  const moved = (8 * EXPERT_PARAMETERS * 3) / 4;
  expect(all.weightsGiB - shared.weightsGiB).toBeCloseTo((2 * moved * (1 + 5e-4)) / GIB, 6);
  expect(all.gradientsGiB - shared.gradientsGiB).toBeCloseTo((4 * moved * (1 + 5e-4)) / GIB, 6);
  // 12 bytes ÷ 8 replicas for all; a quarter ÷ 2 for the parts.
  expect(shared.optimizerGiB).toBeCloseTo(all.optimizerGiB, 9);
  expect(shared.activationsGiB).toBe(all.activationsGiB);
});

test("without a sharded optimiser the state is the part's", () => {
  const sums = layerSums(MODEL);
  const of = { isSharded: false, experts: 8 };
  const { weightsGiB, optimizerGiB } = stageMemory(splitOn(hosts(1), of), 0, sums);
  expect(optimizerGiB).toBeCloseTo(6 * weightsGiB, 9);
});

test("tokens inside a host cross its ports as often as replicas of the group lie there", () => {
  const sums = layerSums(MODEL);
  const site = hosts(1);
  const { parts } = stepTime(splitOn(site, { experts: 4 }), { site, sums });
  // Two tensors a block and pass, of two experts a token; a quarter to each of three others; two passes, four micro-batches.
  const bytes = (8 * 2 * 2 * (2 * 4096 * 4096) * 3) / 4;
  const ms = 2 * 4 * (bytes / (300 * 1e6) + 8 * 2 * 0.005);
  expect(parts.exchangeMs).toBeCloseTo(ms, 6);
});

test("tokens between hosts share the card with all replicas of the host", () => {
  const sums = layerSums(MODEL);
  const site = hosts(2, 4);
  const { parts } = playedStep(splitOn(site, { experts: 8 }), { site, sums });
  // Four of eight go to the other host, from four units over one card.
  const bytes = (8 * 2 * 2 * (2 * 4096 * 4096) * 4) / 8;
  const ms = 2 * 4 * ((4 * bytes) / (25 * 1e6) + 8 * 2 * 0.01);
  expect(parts.exchangeMs).toBeCloseTo(ms, 4);
});

test("groups of experts stay inside hosts where tokens are most of the traffic", async () => {
  const site = hosts(4);
  const plan = await planned(site, { batch: 2048, fixed: { width: 1, stages: 1, experts: 8 } });
  for (let first = 0; first < 32; first += 8)
    expect(new Set(plan.split.cells.slice(first, first + 8).map((unit) => unit.host)).size).toBe(1);
});

test("experts are shared out where they would not fit otherwise", async () => {
  const site = hosts(1);
  const all = { ...site, hosts: site.hosts.map((each) => ({ ...each, memoryGiB: 60 })) };
  const { split, stages } = await planned(all, { fixed: { stages: 1 } });
  expect(split.experts).toBeGreaterThan(1);
  for (const { memoryGiB, cardGiB } of stages) expect(memoryGiB).toBeLessThanOrEqual(cardGiB);
});

test("a model whose experts need all cards together is not called impossible", async () => {
  const site = hosts(1);
  const small = { ...site, hosts: site.hosts.map((each) => ({ ...each, memoryGiB: 8 })) };
  const answer = await planTraining({
    model: MODEL,
    site: small,
    batch: 64,
    random: randomFrom(1),
  });
  expect(answer).toMatchObject({ kind: "blocked" });
  const needed = /needs ([0-9.]+) GiB/.exec(answer.kind === "blocked" ? answer.message : "")?.[1];
  const enough = {
    ...site,
    hosts: site.hosts.map((each) => ({ ...each, memoryGiB: Number(needed) + 0.1 })),
  };
  const { split } = await planned(enough, { batch: 8 });
  expect(split.cells).toHaveLength(8 / split.width);
});

test("the document has the groups, and Megatron-LM its degree", async () => {
  const site = hosts(2);
  const plan = await planned(site, { fixed: { width: 1, stages: 2, experts: 4 } });
  const document = planDocument(plan, site, SHAPE);
  expect(document.expertParallel).toBe(4);
  expect(document.groups.expert).toHaveLength(4);
  expect(document.groups.expert.flat().sort((a, b) => a - b)).toEqual(
    Array.from({ length: 16 }, (_, rank) => rank),
  );
  for (const group of document.groups.expert) {
    const ranks = group.map((rank) => document.ranks[rank]?.megatronRank ?? -1);
    // Megatron-LM counts data ranks after tensor ranks, and takes neighbours for a group.
    expect(ranks).toEqual(ranks.map((_, at) => (ranks[0] ?? 0) + at));
    expect((ranks[0] ?? 0) % 4).toBe(0);
  }
  expect(document.arguments.megatron).toContain("--expert-model-parallel-size 4");
});

const anySplit = fc.record({
  seed: fc.integer({ min: 1, max: 1e6 }),
  fleet: fc.constantFrom(...CHECKED_FLEETS.keys()),
  stages: fc.constantFrom(1, 2, 3),
  width: fc.constantFrom(1, 2),
  experts: fc.constantFrom(2, 4, 8),
  microBatch: fc.integer({ min: 1, max: 2 }),
  microBatches: fc.integer({ min: 1, max: 12 }),
  isSharded: fc.boolean(),
  isRecomputing: fc.boolean(),
});

test("any split on any order of equal GPUs: link's bytes ÷ rate ≤ played step and bound, and the played step is the simulated one", () => {
  fc.assert(
    fc.property(anySplit, ({ seed, fleet, stages, width, experts, ...rest }) => {
      const site = CHECKED_FLEETS.get(fleet);
      if (site === undefined) throw new Error(fleet);
      fc.pre(new Set(site.hosts.map(({ teraflops }) => teraflops)).size === 1);
      const units = unitsOf(site, width) ?? [];
      const replicas = Math.floor(units.length / stages / experts) * experts;
      fc.pre(replicas > 0);
      const cells = shuffled(units, randomFrom(seed)).slice(0, stages * replicas);
      const split = splitOn(site, { ...rest, stages, replicas, width, experts, cells });
      const sums = layerSums(MODEL);
      const bound = stepTime(split, { site, sums });
      const played = playedStep(split, { site, sums });
      const plan = { model: MODEL, site, split, gradientBytes };
      const simulatedMs = simulateStep(simulatedPlan(plan)).stepMs + played.parts.updateMs;
      expect(linkFloorMs(plan)).toBeLessThanOrEqual(played.totalMs * (1 + ROUNDING));
      expect(linkFloorMs(plan)).toBeLessThanOrEqual(bound.totalMs * (1 + ROUNDING));
      expect(Math.abs(played.totalMs / simulatedMs - 1)).toBeLessThan(1e-6);
      expect(played.totalMs).toBeLessThanOrEqual(bound.totalMs * (1 + ROUNDING));
      for (const { totalMs, parts } of [bound, played])
        expect(Object.values(parts).reduce((sum, part) => sum + part, 0)).toBeCloseTo(totalMs, 5);
    }),
    { numRuns: caseCount(80) },
  );
});
