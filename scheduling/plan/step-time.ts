/**
 * @file Predicts the time of one training step, and its parts, when a model's stages and replicas lie on given GPUs.
 *
 * Step = pipeline + α × gradient all-reduce + update. The pipeline (1F1B) of a replica takes Σ stages τ + (m − 1) × max τ for m micro-batches, where τ
 * is a stage's compute + tensor all-reduces + β × what it sends (output forward, its gradient backward); the slowest replica counts. Compute is
 * 3 × forward FLOPs (4 with recomputation) at `MODEL_FLOP_SHARE` of the peak. A gradient all-reduce of S bytes is hierarchical: 2(k − 1)/k × S / rate in each
 * level (k GPUs of a host, k hosts of a cluster, k clusters), slowest member first, and stages whose rings share a level's ways share their
 * rate. α = β = 1: nothing is hidden behind compute, as Megatron-LM without overlap; SpiderFlow §4.2 has the same three terms.
 * Memory: 16-bit weights and gradients, 12 bytes of optimiser state a parameter (shared out over replicas when it is sharded), activations of
 * the micro-batches in flight (p − stage of them at most), and a reserve. Cost: O(stages × replicas).
 */

import { MODEL_FLOP_SHARE, type PlanModel } from "./models.ts";
import { wayBetween, type PlanHost, type PlanSite, type Unit } from "./site.ts";

/** How a model is split. Cell (stage, replica) is at `cells[stage × replicas + replica]`. */
export interface Split {
  readonly replicas: number;
  readonly stages: number;
  readonly width: number;
  /** Samples. */
  readonly microBatch: number;
  readonly microBatches: number;
  /** Activations are computed again in backward instead of kept. */
  readonly isRecomputing: boolean;
  /** Optimiser state is shared out over the replicas. */
  readonly isSharded: boolean;
  /** First layer of each stage, and the count of layers at the end. */
  readonly bounds: readonly number[];
  readonly cells: readonly Unit[];
}

/** Every way to spend time or exchange for memory. */
export const MEMORY_MODES = [
  { isRecomputing: false, isSharded: false },
  { isRecomputing: false, isSharded: true },
  { isRecomputing: true, isSharded: false },
  { isRecomputing: true, isSharded: true },
] as const;

export interface StepParts {
  readonly computeMs: number;
  /** Waiting because stages are not busy all the time. */
  readonly bubbleMs: number;
  readonly tensorMs: number;
  /** Between stages. */
  readonly sendMs: number;
  /** Gradients. */
  readonly reduceMs: number;
  readonly updateMs: number;
}

export interface MemoryParts {
  readonly weightsGiB: number;
  readonly gradientsGiB: number;
  readonly optimizerGiB: number;
  readonly activationsGiB: number;
  readonly reserveGiB: number;
}

export interface Exposure {
  /** α and β of SpiderFlow §4.2: the share of communication that compute does not hide. */
  readonly reduce: number;
  readonly send: number;
}

export const EXPOSURE: Exposure = Object.freeze({ reduce: 1, send: 1 });

const GIB = 2 ** 30;
/** Context, libraries' buffers, fragmentation. */
const RESERVE_GIB = 1.2;
/** Bytes that the optimiser moves for a parameter, over a terabyte a second of device memory. */
const UPDATE_BYTES = 28;
const DEVICE_GBS = 1_000;
const GRADIENT_BYTES = 2;

export interface LayerSums {
  readonly parameters: Float64Array;
  readonly flops: Float64Array;
  readonly activations: Float64Array;
  readonly outputs: Float64Array;
  readonly syncBytes: Float64Array;
  /** Of the layer with most. */
  readonly largestActivation: number;
}

/** Sums over the first layers, so that any stage costs one subtraction. */
export function layerSums({ layers }: PlanModel): LayerSums {
  const sums = (of: (layer: PlanModel["layers"][number]) => number): Float64Array => {
    const total = new Float64Array(layers.length + 1);
    for (const [at, layer] of layers.entries()) total[at + 1] = (total[at] ?? 0) + of(layer);
    return total;
  };
  return {
    parameters: sums(({ parameters }) => parameters),
    flops: sums(({ forwardFlops }) => forwardFlops),
    activations: sums(({ activationBytes }) => activationBytes),
    outputs: sums(({ outputBytes }) => outputBytes),
    syncBytes: sums(({ tensorSyncs, outputBytes }) => tensorSyncs * outputBytes),
    largestActivation: Math.max(...layers.map(({ activationBytes }) => activationBytes)),
  };
}

const range = (sums: Float64Array, from: number, to: number): number =>
  (sums[to] ?? 0) - (sums[from] ?? 0);

export interface StepSetting {
  readonly site: PlanSite;
  readonly sums: LayerSums;
  readonly exposure?: Exposure;
}

export interface StepTime {
  readonly totalMs: number;
  readonly parts: StepParts;
}

export function stepTime(split: Split, { site, sums, exposure = EXPOSURE }: StepSetting): StepTime {
  const { replicas, stages, microBatches, cells } = split;
  let slowest = { totalMs: -1, computeMs: 0, bubbleMs: 0, tensorMs: 0, sendMs: 0 };
  for (let replica = 0; replica < replicas; replica += 1) {
    let sum = 0;
    let most = { all: 0, compute: 0, tensor: 0, send: 0 };
    for (let stage = 0; stage < stages; stage += 1) {
      const unit = cells[stage * replicas + replica];
      const host = unit === undefined ? undefined : site.hosts[unit.host];
      if (host === undefined) continue;
      const compute = computeMs(split, { sums, stage, host });
      const tensor = tensorMs(split, { sums, stage, host });
      const next = cells[(stage + 1) * replicas + replica];
      const nextHost =
        next === undefined || stage + 1 === stages ? undefined : site.hosts[next.host];
      const send =
        nextHost === undefined
          ? 0
          : exposure.send * sendMs(split, { sums, stage, way: wayBetween(site, host, nextHost) });
      const all = compute + tensor + send;
      sum += all;
      if (all > most.all) most = { all, compute, tensor, send };
    }
    const totalMs = sum + (microBatches - 1) * most.all;
    if (totalMs > slowest.totalMs) {
      // What the busiest stage does all the time is work; the rest of the pipeline's time is waiting for it.
      const computeMs_ = microBatches * most.compute;
      const tensorMs_ = microBatches * most.tensor;
      const sendMs_ = microBatches * most.send;
      slowest = {
        totalMs,
        computeMs: computeMs_,
        tensorMs: tensorMs_,
        sendMs: sendMs_,
        // Rounding must not leave a wait below nothing.
        bubbleMs: Math.max(0, totalMs - computeMs_ - tensorMs_ - sendMs_),
      };
    }
  }
  const reduceMs = exposure.reduce * reduceTime(split, { site, sums });
  const updateMs = updateTime(split, sums);
  const { totalMs: pipelineMs, ...pipeline } = slowest;
  return {
    totalMs: pipelineMs + reduceMs + updateMs,
    parts: { ...pipeline, reduceMs, updateMs },
  };
}

interface StageOnHost {
  readonly sums: LayerSums;
  readonly stage: number;
  readonly host: PlanHost;
}

const boundsOf = (split: Split, stage: number): readonly [number, number] => [
  split.bounds[stage] ?? 0,
  split.bounds[stage + 1] ?? 0,
];

function computeMs(split: Split, { sums, stage, host }: StageOnHost): number {
  const [from, to] = boundsOf(split, stage);
  const passes = split.isRecomputing ? 4 : 3;
  const flops = passes * range(sums.flops, from, to) * split.microBatch;
  return flops / (split.width * host.teraflops * MODEL_FLOP_SHARE * 1e9);
}

/** Forward and backward each reduce what each part of the layers makes; so does a second forward. */
function tensorMs(split: Split, { sums, stage, host }: StageOnHost): number {
  const { width } = split;
  if (width === 1) return 0;
  const [from, to] = boundsOf(split, stage);
  const passes = split.isRecomputing ? 3 : 2;
  const bytes = passes * range(sums.syncBytes, from, to) * split.microBatch;
  const calls = passes * 2 * (to - from);
  const { gbs, latencyMs } = host.inside;
  return (2 * (width - 1) * bytes) / width / (gbs * 1e6) + calls * (width - 1) * latencyMs;
}

function sendMs(
  split: Split,
  {
    sums,
    stage,
    way,
  }: {
    readonly sums: LayerSums;
    readonly stage: number;
    readonly way: { readonly gbs: number; readonly latencyMs: number };
  },
): number {
  const [, to] = boundsOf(split, stage);
  const bytes = range(sums.outputs, to - 1, to) * split.microBatch;
  return 2 * (bytes / (way.gbs * 1e6) + way.latencyMs);
}

/** The stages' all-reduces run at the same time: in each level, those that use the same way share it. */
function reduceTime(
  split: Split,
  { site, sums }: { readonly site: PlanSite; readonly sums: LayerSums },
): number {
  const { replicas, stages, cells } = split;
  if (replicas === 1) return 0;
  const stageLevels = Array.from({ length: stages }, (_, stage) =>
    levelsOf(cells.slice(stage * replicas, (stage + 1) * replicas), site),
  );
  /** Bytes a second are shared by the stages that leave the same host, or the same cluster. */
  const leaving = new Map<string, number>();
  for (const { leaves } of stageLevels)
    for (const key of leaves) leaving.set(key, (leaving.get(key) ?? 0) + 1);
  let slowest = 0;
  for (const [stage, { insides, fabrics, wan, leaves }] of stageLevels.entries()) {
    const [from, to] = boundsOf(split, stage);
    const bytes = GRADIENT_BYTES * range(sums.parameters, from, to);
    const sharing = (prefix: string): number =>
      Math.max(
        1,
        ...leaves.filter((key) => key.startsWith(prefix)).map((key) => leaving.get(key) ?? 1),
      );
    const time =
      levelMs(bytes / split.width, insides, 1) +
      levelMs(bytes, fabrics, sharing("host ")) +
      levelMs(bytes, wan, sharing("cluster "));
    slowest = Math.max(slowest, time);
  }
  return slowest;
}

interface Ring {
  readonly members: number;
  readonly gbs: number;
  readonly latencyMs: number;
}

/** All rings of a level run side by side: the slowest counts. */
const levelMs = (bytes: number, rings: readonly Ring[], sharing: number): number =>
  Math.max(
    0,
    ...rings.map(({ members, gbs, latencyMs }) =>
      members < 2
        ? 0
        : ((2 * (members - 1)) / members) * (bytes / ((gbs / sharing) * 1e6)) +
          2 * (members - 1) * latencyMs,
    ),
  );

interface Levels {
  readonly insides: readonly Ring[];
  readonly fabrics: readonly Ring[];
  readonly wan: readonly Ring[];
  /** The hosts and clusters that this stage's gradients leave. */
  readonly leaves: readonly string[];
}

function levelsOf(units: readonly Unit[], site: PlanSite): Levels {
  const byHost = new Map<number, number>();
  for (const { host } of units) byHost.set(host, (byHost.get(host) ?? 0) + 1);
  const byCluster = new Map<string, number[]>();
  for (const host of byHost.keys()) {
    const cluster = site.hosts[host]?.cluster ?? "";
    byCluster.set(cluster, [...(byCluster.get(cluster) ?? []), host]);
  }
  const insides = [...byHost].flatMap(([host, members]) => {
    const way = site.hosts[host]?.inside;
    return way === undefined ? [] : [{ members, ...way }];
  });
  const fabrics = [...byCluster].map(([cluster, hosts]) => ({
    members: hosts.length,
    ...site.fabric(cluster),
  }));
  const clusters = [...byCluster.keys()];
  const leaves = [
    ...[...byCluster.values()].flatMap((hosts) =>
      hosts.length > 1 ? hosts.map((host) => `host ${host}`) : [],
    ),
    ...(clusters.length > 1 ? clusters.map((cluster) => `cluster ${cluster}`) : []),
  ];
  return { insides, fabrics, wan: clusters.length > 1 ? [wanRing(clusters, site)] : [], leaves };
}

/** A ring over the clusters, each joined to the one that it reaches fastest among those left. */
function wanRing(clusters: readonly string[], site: PlanSite): Ring {
  const left = [...clusters].slice(1);
  let at = clusters[0] ?? "";
  let ring = { gbs: Infinity, latencyMs: 0 };
  const step = (to: string): void => {
    const way = site.between(at, to);
    ring = { gbs: Math.min(ring.gbs, way.gbs), latencyMs: Math.max(ring.latencyMs, way.latencyMs) };
    at = to;
  };
  while (left.length > 0) {
    let best = 0;
    for (const [place, cluster] of left.entries())
      if (site.between(at, cluster).gbs > site.between(at, left[best] ?? "").gbs) best = place;
    step(left.splice(best, 1)[0] ?? at);
  }
  if (clusters.length > 2) step(clusters[0] ?? at);
  return { members: clusters.length, ...ring };
}

function updateTime(split: Split, sums: LayerSums): number {
  let most = 0;
  for (let stage = 0; stage < split.stages; stage += 1)
    most = Math.max(most, range(sums.parameters, ...boundsOf(split, stage)));
  const shares = split.width * (split.isSharded ? split.replicas : 1);
  return (most * UPDATE_BYTES) / shares / (DEVICE_GBS * 1e6);
}

export function stageMemory(split: Split, stage: number, sums: LayerSums): MemoryParts {
  const [from, to] = boundsOf(split, stage);
  return layersMemory(split, { stage, from, to }, sums);
}

/** Of the layers from `from` up to `to` as a stage. */
export function layersMemory(
  split: Omit<Split, "bounds">,
  { stage, from, to }: { readonly stage: number; readonly from: number; readonly to: number },
  sums: LayerSums,
): MemoryParts {
  const parameters = range(sums.parameters, from, to) / split.width;
  const inFlight = Math.min(split.microBatches, split.stages - stage);
  const kept = range(sums.activations, from, to);
  const inputs = range(sums.outputs, Math.max(0, from - 1), Math.max(0, to - 1));
  // Recomputing keeps what enters each layer, and all of one layer while it is computed again.
  const activations = split.isRecomputing
    ? inFlight * Math.min(inputs, kept) + Math.min(kept, sums.largestActivation)
    : inFlight * kept;
  const optimizer = (12 * parameters) / (split.isSharded ? split.replicas : 1);
  return {
    weightsGiB: (2 * parameters) / GIB,
    gradientsGiB: (GRADIENT_BYTES * parameters) / GIB,
    optimizerGiB: optimizer / GIB,
    activationsGiB: (activations * split.microBatch) / split.width / GIB,
    reserveGiB: RESERVE_GIB,
  };
}

export const memoryGiB = (parts: MemoryParts): number =>
  parts.weightsGiB +
  parts.gradientsGiB +
  parts.optimizerGiB +
  parts.activationsGiB +
  parts.reserveGiB;
