/** @file Bounds below a step's time never pass it, whatever the split and wherever it lies. */
import { expect, test } from "vitest";
import { MODEL_PRESETS } from "../../../domain/model/model-presets.ts";
import { randomFrom, shuffled } from "../../../lib/random.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import { unitsOf, type PlanSite } from "../../../planning/parallelism/site.ts";
import { layerSums } from "../../../planning/parallelism/split.ts";
import { stepTime } from "../../../planning/parallelism/step-time.ts";
import { leastComputeMs, leastReduceMs } from "../../../simulator/spiderflow/least-step.ts";

const shape = MODEL_PRESETS.get("gpt2-1.3b");
if (shape === undefined) throw new Error("no such preset");
const model = presetModel("gpt2-1.3b", shape);
const sums = layerSums(model);
const layers = model.layers.length;

test("compute and gradients together are never longer than the step that is predicted, and often close to it", () => {
  const random = randomFrom(1, "splits");
  let close = 0;
  for (let turn = 0; turn < 300; turn += 1) {
    const clusters = 1 + random.below(3);
    const fabric = { gbs: 0.5 + random.unit(), latencyMs: 0.05 };
    const wan = { gbs: 0.05 + random.unit(), latencyMs: 10 };
    const hosts = Array.from({ length: clusters * 2 }, (_, at) => ({
      id: String(at),
      cluster: String(at % clusters),
      gpuType: "A100",
      gpuCount: 2,
      memoryGiB: 80,
      teraflops: 312,
      inside: { gbs: 25, latencyMs: 0.01 },
      nvlinkGpus: 2,
    }));
    const site: PlanSite = { hosts, fabric: () => fabric, between: () => wan };
    const cells = shuffled(unitsOf(site, 1) ?? [], random);
    const stages = [1, 2, 4].filter((own) => cells.length % own === 0)[random.below(2)] ?? 1;
    const replicas = cells.length / stages;
    const bounds = Array.from({ length: stages + 1 }, (_, at) =>
      Math.round((at * layers) / stages),
    );
    const [microBatch, microBatches] = [1 + random.below(3), 1 + random.below(6)];
    const batch = microBatch * microBatches * replicas;
    const split = { stages, replicas, width: 1, microBatch, microBatches, bounds, cells };
    const whole = { ...split, isRecomputing: false, isSharded: random.unit() < 0.5 };
    const { totalMs } = stepTime(whole, { site, sums });
    const speeds = {
      clusterOf: Int32Array.from(hosts, ({ cluster }) => Number(cluster)),
      clusters,
      fabricGbs: fabric.gbs,
      widestGbs: wan.gbs,
    };
    const computeMs =
      (leastComputeMs(sums, { batch, gpus: cells.length, teraflops: 312 }) *
        (microBatches + stages - 1)) /
      microBatches;
    const leastMs = computeMs + leastReduceMs(split, sums, speeds);
    expect(leastMs).toBeLessThanOrEqual(totalMs * (1 + 1e-9));
    if (leastMs > totalMs / 2) close += 1;
  }
  expect(close).toBeGreaterThan(60);
});
