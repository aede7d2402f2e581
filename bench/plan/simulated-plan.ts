/**
 * @file A split of a model as the flow simulation takes it: times and bytes from the model's layers, without the planner's predictor.
 *
 * Compute: FLOPs at the stated share of the peak, one forward and two backward, one more forward where activations are computed again.
 * All-reduces within layers: as rings over NVLink, one in forward and backward for each output.
 */

import { MODEL_FLOP_SHARE, type PlanModel } from "../../planning/parallelism/models.ts";
import type { PlanSite } from "../../planning/parallelism/site.ts";
import type { Split } from "../../planning/parallelism/split.ts";
import type { SimulatedStep } from "./simulated-step.ts";

export interface SimulatedPlan {
  readonly model: PlanModel;
  readonly site: PlanSite;
  readonly split: Split;
  /** Bytes of a gradient on its way. */
  readonly gradientBytes: number;
  /** Megatron-Core where absent. */
  readonly framework?: "deepspeed" | "fsdp2";
}

/** Bytes of a parameter over an edge of its ring in a step, but for (k − 1)/k, and how often each half of a ring's work goes around. */
export function ringTraffic({
  model,
  split: { isSharded, shards, microBatches },
  gradientBytes,
  framework,
}: SimulatedPlan): { readonly bytes: number; readonly rounds: number } {
  const each = microBatches * model.layers.length;
  if (framework === "fsdp2" || shards === "parameters") {
    // Gathered for forward and for backward, summed once: FSDP2 in 32 bits, ZeRO 3 in 16.
    const summed = framework === "fsdp2" ? 4 : 2;
    return { bytes: microBatches * (2 + 2 + summed), rounds: (3 * each) / 2 };
  }
  if (shards === "gradients") return { bytes: 2 * microBatches + 2, rounds: (each + 1) / 2 };
  if (framework === "deepspeed")
    return { bytes: 2 * gradientBytes + (isSharded ? 2 : 0), rounds: 1 };
  return { bytes: gradientBytes + (isSharded ? 2 : gradientBytes), rounds: 1 };
}

/** What a unit sends to each other of its group in a micro-batch and run of layers: tokens out and results back, as much again in backward, once more where it recomputes. */
export function exchangedBytes(
  { model, split: { bounds, microBatch, isRecomputing, experts = 1, contexts = 1 } }: SimulatedPlan,
  run: number,
): { readonly forward: number; readonly backward: number } {
  const layers = model.layers.slice(bounds[run], bounds[run + 1]);
  const tokens = layers.reduce((sum, { expertBytes = 0 }) => sum + expertBytes, 0);
  const forward = experts === 1 ? 0 : (2 * tokens * microBatch) / experts / contexts;
  return { forward, backward: isRecomputing ? 2 * forward : forward };
}

/**
 * Over each edge of the ring of units that share out a sequence, in a micro-batch and run: all but one of so many parts of the keys and values, which queries' heads share
 * out or latents are unfolded into; backward they go around again, with their gradients, and once more where it recomputes.
 */
export function keyValueTraffic(
  {
    model: { shape, layers },
    split: { bounds, microBatch, isRecomputing, contexts = 1 },
  }: SimulatedPlan,
  run: number,
): { readonly forward: number; readonly backward: number; readonly calls: number } {
  if (shape === undefined || contexts === 1) return { forward: 0, backward: 0, calls: 0 };
  const blocks = Array.from(layers.keys())
    .slice(bounds[run], bounds[run + 1])
    .filter((layer) => layer > 0 && layer < layers.length - 1).length;
  const { latent, heads, keyValueHeads, headSize, sequence } = shape;
  const numbers =
    latent === undefined
      ? keyValueHeads * (headSize + headSize)
      : heads * (latent.plainSize + latent.rotarySize) + heads * latent.valueSize;
  const all = blocks * microBatch * sequence * numbers * 2;
  const forward = all - all / contexts;
  return { forward, backward: (isRecomputing ? 3 : 2) * forward, calls: blocks * (contexts - 1) };
}

/** Of a stage's experts, where replicas share them out; else 0. */
export const expertParameters = (plan: SimulatedPlan, stage: number): number =>
  (plan.split.experts ?? 1) === 1
    ? 0
    : stageLayers(plan, stage).reduce((sum, { expertParameters: own = 0 }) => sum + own, 0);

/** Of a stage, in all of its runs: every so many runs there are as stages is its own. */
export const stageLayers = (
  { model, split: { bounds, stages } }: SimulatedPlan,
  stage: number,
): PlanModel["layers"] =>
  bounds
    .slice(0, -1)
    .flatMap((from, run) =>
      run % stages === stage ? model.layers.slice(from, bounds[run + 1]) : [],
    );

export function simulatedPlan(plan: SimulatedPlan): SimulatedStep {
  const { model, site, split, gradientBytes } = plan;
  const traffic = ringTraffic(plan);
  const { stages, replicas, width, microBatches, bounds, contexts = 1 } = split;
  // Of a micro-batch, what one unit works on.
  const microBatch = split.microBatch / contexts;
  const runs = bounds.length - 1;
  const layersOf = (run: number): PlanModel["layers"] =>
    model.layers.slice(bounds[run], bounds[run + 1]);
  const computeMs = (run: number, host: number): number =>
    (layersOf(run).reduce((sum, { forwardFlops }) => sum + forwardFlops, 0) * microBatch) /
    (width * (site.hosts[host]?.teraflops ?? 0) * MODEL_FLOP_SHARE * 1e9);
  const syncMs = (run: number, host: number): number => {
    const inside = site.hosts[host]?.inside;
    if (width === 1 || inside === undefined) return 0;
    const layers = layersOf(run);
    const bytes = layers.reduce((sum, layer) => sum + layer.tensorSyncs * layer.outputBytes, 0);
    const ring = (2 * (width - 1)) / width;
    return (
      (ring * bytes * microBatch) / (inside.gbs * 1e6) +
      2 * layers.length * (width - 1) * inside.latencyMs
    );
  };
  const scoresMs = (run: number, host: number): number =>
    split.isRecomputingScores === true
      ? (layersOf(run).reduce((sum, { scoreFlops = 0 }) => sum + scoreFlops, 0) * microBatch) /
        (width * (site.hosts[host]?.teraflops ?? 0) * MODEL_FLOP_SHARE * 1e9)
      : 0;
  const again = split.isRecomputing ? 1 : 0;
  const parameters = Array.from({ length: stages }, (_, stage) => {
    const own = stageLayers(plan, stage).reduce((sum, layer) => sum + layer.parameters, 0);
    return (
      own -
      expertParameters(plan, stage) +
      (stage > 0 && stage === stages - 1 ? (model.tiedParameters ?? 0) : 0)
    );
  });
  return {
    hosts: site.hosts.map(({ cluster, nvlinkGpus, inside }) => ({
      cluster,
      hasNvlink: nvlinkGpus > 1,
      insideGbs: inside.gbs,
      insideMs: inside.latencyMs,
    })),
    fabric: site.fabric,
    between: site.between,
    ...{ stages, replicas, width, microBatches },
    cellHosts: split.cells.map(({ host }) => host),
    runs: runs / stages,
    forwardMs: (run, host) => computeMs(run, host) + syncMs(run, host),
    backwardMs: (run, host) =>
      (2 + again) * computeMs(run, host) + scoresMs(run, host) + (1 + again) * syncMs(run, host),
    sendBytes: Array.from(
      { length: runs },
      (_, run) => (layersOf(run).at(-1)?.outputBytes ?? 0) * microBatch,
    ),
    ringBytes: parameters.map((count) => (count * traffic.bytes * (replicas - 1)) / replicas),
    ringRounds: traffic.rounds,
    contexts,
    keyValues: Array.from({ length: runs }, (_, run) => keyValueTraffic(plan, run)),
    experts: split.experts ?? 1,
    exchanges: Array.from({ length: runs }, (_, run) => ({
      ...exchangedBytes(plan, run),
      calls: 2 * layersOf(run).filter(({ expertBytes = 0 }) => expertBytes > 0).length,
    })),
    expertBytes: Array.from(
      { length: stages },
      (_, stage) => (expertParameters(plan, stage) * traffic.bytes) / (split.experts ?? 1),
    ),
    tiedBytes: gradientBytes * (model.tiedParameters ?? 0),
  };
}
