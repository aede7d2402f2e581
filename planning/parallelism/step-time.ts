/**
 * @file Predicts the time of one training step, and its parts, for a model's stages and replicas on given GPUs.
 *
 * Step = pipeline + sums of gradients + update. The pipeline of a replica takes as long as 1F1B does (pipeline-time.ts) with a stage's compute,
 * its tensor all-reduces, the exchange of tokens with the replicas that share out experts, of keys and values with those that share out a sequence
 * (context-ring.ts; they go on together), and its own sends (output forward, gradient of the input
 * backward); the slowest replica counts. Compute is
 * 3 × forward FLOPs (4 with recomputation) at `MODEL_FLOP_SHARE` of the peak. Sends share links as in pipeline-sends.ts, gradients as in
 * gradient-rings.ts: neither is ever faster than max–min fairness. Nothing is hidden behind compute, as in Megatron-LM without overlap: SpiderFlow's α = β = 1
 * (§4.2).
 * `stepTime` bounds the step for the search; `playedStep` plays its flows (step-timeline.ts), for the few splits that are left. Cost: O(stages ×
 * replicas), and that of the timeline.
 */

import { ringBytes, ringRounds } from "./framework.ts";
import { gradientMs, type GradientTask } from "./gradient-rings.ts";
import { MODEL_FLOP_SHARE } from "./models.ts";
import {
  contextBytes,
  contextCalls,
  contextEdges,
  contextRate,
  contextRing,
} from "./context-ring.ts";
import {
  exchangeBytes,
  exchangeCalls,
  exchangeRate,
  groupOf,
  type ExchangeRate,
  type ExchangeSetting,
  type PassBytes,
} from "./expert-exchange.ts";
import { othersOnHost, sendersOf, sendersTo, sendTimes } from "./pipeline-sends.ts";
import { pipelineMs, type StageTimes } from "./pipeline-time.ts";
import type { PlanHost, PlanSite } from "./site.ts";
import {
  boundsOf,
  contextDegree,
  expertDegree,
  range,
  runCount,
  samplesOf,
  sharedExperts,
  stageParameters,
  type LayerSums,
  type Split,
} from "./split.ts";
import { playStep } from "./step-timeline.ts";

export interface StepParts {
  readonly computeMs: number;
  /** Waiting because stages are not busy all the time. */
  readonly bubbleMs: number;
  readonly tensorMs: number;
  /** Of tokens, with the replicas that share out experts; of keys and values, with those that share out a sequence. */
  readonly exchangeMs: number;
  /** Between stages. */
  readonly sendMs: number;
  /** Gradients. */
  readonly reduceMs: number;
  readonly updateMs: number;
}

/** Bytes that the optimiser moves for a parameter, over a terabyte a second of device memory. */
const UPDATE_BYTES = 28;
const DEVICE_GBS = 1_000;

export interface StepSetting {
  readonly site: PlanSite;
  readonly sums: LayerSums;
}

export interface StepTime {
  readonly totalMs: number;
  readonly parts: StepParts;
}

/** As if the sends, then all rings, then the tied embedding collided on their links; what overlaps between these is left to the timeline. */
export function stepTime(split: Split, setting: StepSetting): StepTime {
  const { site, sums } = setting;
  const { replicas, stages, microBatches } = split;
  const count = runCount(split);
  const users = sendersOf(split, site);
  const sendTime = sendTimes(split, site, users);
  const works = worksOf(split, setting);
  const exchanges = exchangesOf(split, setting, users);
  const bytes = sendBytesOf(split, sums);
  let slowest: Busy | undefined;
  const known: Pipeline[] = [];
  const together = contextDegree(split);
  for (let first = 0; first < replicas; first += together) {
    const forwardMs = new Float64Array(count);
    const backwardMs = new Float64Array(count);
    let most = { all: -1, compute: 0, tensor: 0, exchange: 0, send: 0 };
    for (let at = 0; at < stages * together; at += 1) {
      const [stage, replica] = [Math.floor(at / together), first + (at % together)];
      const cell = stage * replicas + replica;
      const [next, previous] = [cellOf(split, cell + replicas), cellOf(split, cell - replicas)];
      let [computes, tensors, exchanged, sent] = [0, 0, 0, 0];
      for (let run = stage; run < count; run += stages) {
        const place = run * replicas + replica;
        const { compute, tensor, forward } = works[place] ?? NO_WORK;
        const exchange = exchanges[place] ?? NO_EXCHANGE;
        const ahead = run + 1 === count ? 0 : sendTime(cell, next, bytes[run] ?? 0);
        const back = run === 0 ? 0 : sendTime(cell, previous, bytes[run - 1] ?? 0);
        // Those that share out a sequence wait for one another.
        const ms = forward + exchange.forward + ahead;
        forwardMs[run] = Math.max(forwardMs[run] ?? 0, ms);
        const backMs = compute + tensor - forward + exchange.backward + back;
        backwardMs[run] = Math.max(backwardMs[run] ?? 0, backMs);
        computes += compute;
        tensors += tensor;
        exchanged += exchange.forward + exchange.backward;
        sent += ahead + back;
      }
      const all = computes + tensors + exchanged + sent;
      if (all > most.all)
        most = { all, compute: computes, tensor: tensors, exchange: exchanged, send: sent };
    }
    const totalMs = lengthOf({ stages, forwardMs, backwardMs }, microBatches, known);
    if (slowest === undefined || totalMs > slowest.totalMs)
      slowest = {
        totalMs,
        computeMs: microBatches * most.compute,
        tensorMs: microBatches * most.tensor,
        exchangeMs: microBatches * most.exchange,
        sendMs: microBatches * most.send,
      };
  }
  const reduceMs = gradientMs(gradientTask(split, sums), site);
  return stepOf(slowest ?? IDLE, { reduceMs, updateMs: updateTime(split, sums) });
}

/** The cell of a place in the pipeline that a micro-batch passes: with several runs a stage, the first follows the last. */
function cellOf({ stages, replicas }: Split, place: number): number {
  const count = stages * replicas;
  return (place + count) % count;
}

/** As the links share it: for the splits among which a plan is chosen in the end. */
export function playedStep(split: Split, setting: StepSetting): StepTime {
  const { site, sums } = setting;
  const { stages, replicas, microBatches } = split;
  const works = worksOf(split, setting);
  const {
    totalMs,
    pipelineMs: endMs,
    sendMs,
    exchangeMs,
  } = playStep(
    {
      ...gradientTask(split, sums),
      microBatches,
      forwardMs: Float64Array.from(works, ({ forward }) => forward),
      backwardMs: Float64Array.from(
        works,
        ({ compute, tensor, forward }) => compute + tensor - forward,
      ),
      sendBytes: sendBytesOf(split, sums),
      exchanges: Array.from({ length: runCount(split) }, (_, run) => ({
        ...exchangeBytes(split, run, sums),
        calls: exchangeCalls(split, run, sums),
      })),
      contexts: contextDegree(split),
      contextExchanges: Array.from({ length: runCount(split) }, (_, run) => ({
        ...contextBytes(split, run, sums),
        calls: contextCalls(split, run, sums),
      })),
    },
    site,
  );
  let [most, busiest] = [-1, IDLE];
  for (let cell = 0; cell < stages * replicas; cell += 1) {
    let [compute, tensor] = [0, 0];
    for (let at = cell; at < works.length; at += stages * replicas) {
      compute += works[at]?.compute ?? 0;
      tensor += works[at]?.tensor ?? 0;
    }
    const [sent, exchanged] = [sendMs[cell] ?? 0, exchangeMs[cell] ?? 0];
    const all = microBatches * (compute + tensor) + exchanged + sent;
    if (all <= most) continue;
    most = all;
    busiest = {
      totalMs: endMs,
      computeMs: microBatches * compute,
      tensorMs: microBatches * tensor,
      exchangeMs: exchanged,
      sendMs: sent,
    };
  }
  return stepOf(busiest, { reduceMs: totalMs - endMs, updateMs: updateTime(split, sums) });
}

/** The work of the busiest unit of a pipeline, and how long the pipeline takes. */
interface Busy {
  readonly totalMs: number;
  readonly computeMs: number;
  readonly tensorMs: number;
  readonly exchangeMs: number;
  readonly sendMs: number;
}

const IDLE: Busy = { totalMs: 0, computeMs: 0, tensorMs: 0, exchangeMs: 0, sendMs: 0 };

function stepOf(
  { totalMs, ...busy }: Busy,
  rest: Pick<StepParts, "reduceMs" | "updateMs">,
): StepTime {
  // The busiest unit works all the time; the rest of the pipeline's time is waiting, which rounding must not turn below nothing.
  const { computeMs, tensorMs, exchangeMs, sendMs } = busy;
  const bubbleMs = Math.max(0, totalMs - computeMs - tensorMs - exchangeMs - sendMs);
  return {
    totalMs: totalMs + rest.reduceMs + rest.updateMs,
    parts: { ...busy, bubbleMs, ...rest },
  };
}

/** Of a micro-batch behind each run. */
const sendBytesOf = (split: Split, sums: LayerSums): readonly number[] =>
  Array.from({ length: runCount(split) }, (_, run) => {
    const [, to] = boundsOf(split, run);
    return range(sums.outputs, to - 1, to) * samplesOf(split);
  });

/** Of a micro-batch, without sends: compute and all-reduces of both ways, and what of them is forward. */
interface CellWork {
  readonly compute: number;
  readonly tensor: number;
  readonly forward: number;
}

const NO_WORK: CellWork = { compute: 0, tensor: 0, forward: 0 };

/** By run × replicas + replica. Replicas that share out experts wait for one another in every layer. */
function worksOf(split: Split, setting: StepSetting): readonly CellWork[] {
  const works = Array.from({ length: runCount(split) * split.replicas }, (_, at) =>
    cellWork(
      split,
      { run: Math.floor(at / split.replicas), cell: at % (split.stages * split.replicas) },
      setting,
    ),
  );
  if (expertDegree(split) === 1) return works;
  return works.map((work, at) =>
    groupOf(split, at).reduce((slowest, peer) => {
      const other = works[peer] ?? slowest;
      return other.compute + other.tensor > slowest.compute + slowest.tensor ? other : slowest;
    }, work),
  );
}

const NO_EXCHANGE = { forward: 0, backward: 0 };

/** Milliseconds of a micro-batch, by run × replicas + replica; none where nothing is exchanged. */
function exchangesOf(
  split: Split,
  { site, sums }: StepSetting,
  users: Int32Array,
): readonly (typeof NO_EXCHANGE)[] {
  const [experts, contexts] = [expertDegree(split), contextDegree(split)];
  if (experts === 1 && contexts === 1) return [];
  const known: ExchangeSetting["known"] = new Map();
  const rings: ExchangeRate[] = [];
  return Array.from({ length: runCount(split) * split.replicas }, (_, at) => {
    const run = Math.floor(at / split.replicas);
    const cell = at % (split.stages * split.replicas);
    const found = { forward: 0, backward: 0 };
    const add = (bytes: PassBytes, calls: number, { msPerByte, latencyMs }: ExchangeRate): void => {
      if (bytes.forward === 0) return;
      const once = bytes.forward * msPerByte + calls * latencyMs;
      found.forward += once;
      found.backward += (once * bytes.backward) / bytes.forward;
    };
    if (experts > 1) {
      const neighbours = othersOnHost(split, cell);
      const rate = exchangeRate(split, { cell, site, users, neighbours, known });
      add(exchangeBytes(split, run, sums), exchangeCalls(split, run, sums), rate);
    }
    if (contexts > 1) {
      const group = Math.floor(cell / contexts);
      rings[group] ??= contextRate(split, {
        edges: contextEdges(contextRing(split, cell, site), split, site),
        ...{ site, users },
        sendersTo: (to) => sendersTo(split, to),
      });
      add(contextBytes(split, run, sums), contextCalls(split, run, sums), rings[group]);
    }
    return found;
  });
}

function cellWork(
  split: Split,
  { run, cell }: { readonly run: number; readonly cell: number },
  { site, sums }: StepSetting,
): CellWork {
  const host = site.hosts[split.cells[cell]?.host ?? -1];
  if (host === undefined) return NO_WORK;
  const compute = computeMs(split, { sums, run, host });
  const tensor = tensorMs(split, { sums, run, host });
  // One pass of compute, and one of two or three rounds of all-reduces.
  const passMs = passComputeMs(split, { sums, run, host });
  const forward = passMs + tensor / (split.isRecomputing ? 3 : 2);
  return { compute, tensor, forward };
}

interface Pipeline {
  readonly times: StageTimes;
  readonly totalMs: number;
}

/** Most replicas are alike, and each kind is played once. */
function lengthOf(times: StageTimes, microBatches: number, known: Pipeline[]): number {
  const isSame = (a: Float64Array, b: Float64Array): boolean => a.every((ms, at) => ms === b[at]);
  const alike = known.find(
    (other) =>
      isSame(times.forwardMs, other.times.forwardMs) &&
      isSame(times.backwardMs, other.times.backwardMs),
  );
  if (alike !== undefined) return alike.totalMs;
  const totalMs = pipelineMs(times, microBatches);
  known.push({ times, totalMs });
  return totalMs;
}

/** What replicas send one another, in all rounds of a step. */
function gradientTask(split: Split, sums: LayerSums): GradientTask {
  const { gradientBytes } = sums.framework;
  const bytes = ringBytes(split, sums.framework);
  return {
    ...split,
    rounds: ringRounds(split, sums.flops.length - 1),
    stageBytes: Array.from(
      { length: split.stages },
      (_, stage) =>
        bytes * (stageParameters(split, stage, sums) - sharedExperts(split, stage, sums)),
    ),
    expertBytes: Array.from(
      { length: split.stages },
      (_, stage) => (bytes * sharedExperts(split, stage, sums)) / expertDegree(split),
    ),
    tiedBytes: gradientBytes * sums.tiedParameters,
  };
}

interface RunOnHost {
  readonly sums: LayerSums;
  readonly run: number;
  readonly host: PlanHost;
}

/** Of a micro-batch, forward. */
function passComputeMs(split: Split, { sums, run, host }: RunOnHost): number {
  const [from, to] = boundsOf(split, run);
  const flops = range(sums.flops, from, to) * samplesOf(split);
  return flops / (split.width * host.teraflops * MODEL_FLOP_SHARE * 1e9);
}

function computeMs(split: Split, { sums, run, host }: RunOnHost): number {
  const [from, to] = boundsOf(split, run);
  const passes = split.isRecomputing ? 4 : 3;
  const again = split.isRecomputingScores === true ? range(sums.scoreFlops, from, to) : 0;
  const flops = (passes * range(sums.flops, from, to) + again) * samplesOf(split);
  return flops / (split.width * host.teraflops * MODEL_FLOP_SHARE * 1e9);
}

/** Forward and backward each all-reduce the output of each part of a layer; so does a second forward. */
function tensorMs(split: Split, { sums, run, host }: RunOnHost): number {
  const { width } = split;
  if (width === 1) return 0;
  const [from, to] = boundsOf(split, run);
  const passes = split.isRecomputing ? 3 : 2;
  const bytes = passes * range(sums.syncBytes, from, to) * samplesOf(split);
  const calls = passes * 2 * (to - from);
  const { gbs, latencyMs } = host.inside;
  return (2 * (width - 1) * bytes) / width / (gbs * 1e6) + calls * (width - 1) * latencyMs;
}

function updateTime(split: Split, sums: LayerSums): number {
  let most = 0;
  for (let stage = 0; stage < split.stages; stage += 1) {
    const experts = sharedExperts(split, stage, sums);
    // Shared out over the replicas, they are all of them; else a replica has its part.
    const own = split.isSharded ? experts : experts / expertDegree(split);
    most = Math.max(most, stageParameters(split, stage, sums) - experts + own);
  }
  const shares = split.width * (split.isSharded ? split.replicas : 1);
  return (most * UPDATE_BYTES) / shares / (DEVICE_GBS * 1e6);
}
