/** @file The time of a step: the paper's shares, the formulas of pipeline and all-reduce at small sizes, and what changes nothing. */
import { describe, expect, test } from "vitest";
import { HALF_PRECISION } from "../../../planning/parallelism/framework.ts";
import type { PlanModel } from "../../../planning/parallelism/models.ts";
import { unitsOf } from "../../../planning/parallelism/site.ts";
import { layerSums, type Split } from "../../../planning/parallelism/split.ts";
import { memoryGiB } from "../../../planning/parallelism/memory-parts.ts";
import { stageMemory } from "../../../planning/parallelism/stage-memory.ts";
import { stepTime } from "../../../planning/parallelism/step-time.ts";
import { host, preset, siteOf } from "./sites.ts";

describe("the shares of SpiderFlow's figures 10 and 11", () => {
  const model = preset("gpt2-1.3b");
  const sums = layerSums(model, HALF_PRECISION);
  const slow = { gbs: 1.25, latencyMs: 1 };
  const step = (clusters: number) => {
    const hosts = Array.from({ length: clusters }, (_, at) =>
      host(`h${at}`, 8 / clusters, {
        cluster: `c${at}`,
        gpuType: "V100",
        memoryGiB: 32,
        teraflops: 125,
      }),
    );
    const site = { hosts, fabric: () => slow, between: () => slow };
    const split: Split = {
      replicas: 8,
      stages: 1,
      width: 1,
      // The paper does not say which: with 7 samples a GPU one cluster has the share that it had there.
      microBatch: 7,
      microBatches: 1,
      isRecomputing: false,
      isSharded: false,
      bounds: [0, model.layers.length],
      cells: unitsOf(site, 1) ?? [],
    };
    return stepTime(split, { site, sums });
  };

  test("all-reduce goes from some 13 % to over 70 %, throughput falls by more than half", () => {
    const share = (clusters: number): number =>
      step(clusters).parts.reduceMs / step(clusters).totalMs;
    expect(share(1)).toBeGreaterThan(0.1);
    expect(share(1)).toBeLessThan(0.16);
    expect(share(4)).toBeGreaterThan(0.7);
    expect(step(4).totalMs / step(1).totalMs).toBeGreaterThan(2);
    expect(step(2).totalMs).toBeLessThan(step(4).totalMs);
  });
});

describe("one even pipeline", () => {
  const layers = Array.from({ length: 4 }, (_, at) => ({
    name: `l${at}`,
    parameters: 1e6,
    forwardFlops: 1e12,
    outputBytes: 2 ** 20,
    activationBytes: 2 ** 20,
    tensorSyncs: 0,
  }));
  const model: PlanModel = { name: "even", sample: "sample", layers, splitOf: 1 };
  const sums = layerSums(model);
  const site = siteOf(host("a", 4));
  const splitOf = (stages: number, microBatches: number, replicas = 1): Split => ({
    replicas,
    stages,
    width: 1,
    microBatch: 1,
    microBatches,
    isRecomputing: false,
    isSharded: false,
    bounds: Array.from({ length: stages + 1 }, (_, at) => (at * 4) / stages),
    cells: (unitsOf(site, 1) ?? []).slice(0, stages * replicas),
  });
  const partsOf = (split: Split) => stepTime(split, { site, sums }).parts;

  test("computes three forwards of every sample on its stages in turn", () => {
    const one = partsOf(splitOf(1, 6)).computeMs;
    expect(partsOf(splitOf(1, 12)).computeMs).toBeCloseTo(2 * one, 9);
    expect(partsOf(splitOf(2, 6)).computeMs).toBeCloseTo(one / 2, 9);
    expect(partsOf({ ...splitOf(1, 6), isRecomputing: true }).computeMs).toBeCloseTo(
      (4 / 3) * one,
      9,
    );
  });

  test("idles (stages − 1) micro-batches of a stage, and not at all with one stage", () => {
    expect(partsOf(splitOf(1, 8)).bubbleMs).toBeCloseTo(0, 9);
    const { computeMs, bubbleMs, sendMs } = partsOf(splitOf(4, 8));
    expect(bubbleMs).toBeGreaterThan(0.9 * (3 / 8) * computeMs);
    expect(bubbleMs).toBeLessThanOrEqual((3 / 8) * (computeMs + sendMs) + 1e-9);
  });

  test("reduces gradients between replicas alone, and sends between stages alone", () => {
    expect(partsOf(splitOf(1, 4)).reduceMs).toBe(0);
    expect(partsOf(splitOf(1, 4, 2)).reduceMs).toBeGreaterThan(0);
    expect(partsOf(splitOf(1, 4)).sendMs).toBe(0);
    expect(partsOf(splitOf(2, 4)).sendMs).toBeGreaterThan(0);
  });

  test("adds up to the total", () => {
    for (const split of [splitOf(1, 4, 2), splitOf(2, 4), splitOf(2, 4, 2)]) {
      const { totalMs, parts } = stepTime(split, { site, sums });
      expect(Object.values(parts).reduce((sum, part) => sum + part, 0)).toBeCloseTo(totalMs, 9);
    }
  });

  test("needs less memory when it shards or recomputes", () => {
    const split = splitOf(2, 4, 2);
    const plain = memoryGiB(stageMemory(split, 0, sums));
    expect(memoryGiB(stageMemory({ ...split, isSharded: true }, 0, sums))).toBeLessThan(plain);
    expect(memoryGiB(stageMemory({ ...split, isRecomputing: true }, 0, sums))).toBeLessThan(plain);
  });
});
