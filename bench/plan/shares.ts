/**
 * @file SpiderFlow's figures 1, 10 and 11 from the step-time model: GPT-2 1.3B over 1, 2 and 4 clusters, data parallel.
 *
 * 8 V100 32 GB, 10 Gb/s between clusters, NVLink at 25 GB/s within one (§5.1). The paper does not say how many samples a GPU takes: 7 is what gives one
 * cluster the share that figure 1 has there (13 %); two and four clusters are then predictions.
 */

import { MODEL_PRESETS } from "../../domain/model/model-presets.ts";
import { HALF_PRECISION } from "../../planning/parallelism/framework.ts";
import { presetModel } from "../../planning/parallelism/transformer-layers.ts";
import { unitsOf, type PlanHost, type PlanSite } from "../../planning/parallelism/site.ts";
import { layerSums } from "../../planning/parallelism/split.ts";
import { stepTime, type StepTime } from "../../planning/parallelism/step-time.ts";
import { atLeast, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchTable } from "../bench.ts";

const GPUS = 8;
const SAMPLES = 7;
const BETWEEN = { gbs: 1.25, latencyMs: 1 };
const INSIDE = { gbs: 25, latencyMs: 0.01 };

export interface Shares {
  readonly bars: readonly Bar[];
  readonly table: BenchTable;
  readonly points: readonly {
    readonly clusters: number;
    readonly share: number;
    readonly samplesPerS: number;
    readonly parts: StepTime["parts"];
  }[];
}

export function measureShares(): Shares {
  const points = [1, 2, 4].map((clusters) => {
    const { totalMs, parts } = stepOver(clusters);
    return {
      clusters,
      totalMs,
      parts,
      share: parts.reduceMs / totalMs,
      samplesPerS: (1000 * GPUS * SAMPLES) / totalMs,
    };
  });
  const [one, , four] = points;
  const slowdown = (one?.samplesPerS ?? NaN) / (four?.samplesPerS ?? NaN);
  return {
    points,
    bars: [
      barOf({
        id: "share-1-cluster",
        unit: "%",
        target: REPORTED,
        got: 100 * (one?.share ?? NaN),
        paper: 13,
        note: "the samples a GPU are chosen so; the paper states none",
      }),
      barOf({
        id: "share-4-clusters",
        unit: "%",
        target: atLeast(70),
        got: 100 * (four?.share ?? NaN),
        paper: 70,
      }),
      barOf({ id: "slowdown-4-clusters", unit: "×", target: atLeast(2), got: slowdown, paper: 2 }),
    ],
    table: {
      title: `GPT-2 1.3B, ${GPUS} V100, 10 Gb/s between clusters, ${SAMPLES} samples a GPU, data parallel`,
      columns: ["CLUSTERS", "STEP MS", "COMPUTE MS", "ALL-REDUCE MS", "SHARE", "SAMPLES/S"],
      rows: points.map(({ clusters, totalMs, parts, share, samplesPerS }) => [
        String(clusters),
        totalMs.toFixed(0),
        parts.computeMs.toFixed(0),
        parts.reduceMs.toFixed(0),
        `${(100 * share).toFixed(1)} %`,
        samplesPerS.toFixed(1),
      ]),
    },
  };
}

function stepOver(clusters: number): StepTime {
  const shape = MODEL_PRESETS.get("gpt2-1.3b");
  if (shape === undefined) throw new RangeError("the preset gpt2-1.3b is gone");
  const model = presetModel("gpt2-1.3b", shape);
  const hosts = Array.from({ length: clusters }, (_, at): PlanHost => ({
    id: `h${at}`,
    cluster: `c${at}`,
    gpuType: "V100-32",
    gpuCount: GPUS / clusters,
    memoryGiB: 32,
    teraflops: 125,
    inside: INSIDE,
    nvlinkGpus: GPUS / clusters,
  }));
  const site: PlanSite = { hosts, fabric: () => BETWEEN, between: () => BETWEEN };
  const split = {
    ...{ replicas: GPUS, stages: 1, width: 1, microBatch: SAMPLES, microBatches: 1 },
    ...{
      isRecomputing: false,
      isSharded: false,
      bounds: [0, model.layers.length],
      cells: unitsOf(site, 1) ?? [],
    },
  };
  return stepTime(split, { site, sums: layerSums(model, HALF_PRECISION) });
}
