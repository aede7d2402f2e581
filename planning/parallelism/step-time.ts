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
import { cellRates, type CellRates } from "./cell-rates.ts";
import { NO_WORK, worksOf } from "./cell-works.ts";
import { contextBytes, contextCalls } from "./context-ring.ts";
import {
  exchangeBytes,
  exchangeCalls,
  type ExchangeRate,
  type PassBytes,
} from "./expert-exchange.ts";
import { sendTime, type SendRate } from "./pipeline-sends.ts";
import { pipelineMs, type StageTimes } from "./pipeline-time.ts";
import type { PlanSite } from "./site.ts";
import {
  boundsOf,
  contextDegree,
  expertDegree,
  planName,
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

export interface PlayedStep {
  /** Absent where the moments were not enough. */
  readonly time?: StepTime;
  /** That were played: at each something changed. */
  readonly moments: number;
}

/** As if the sends, then all rings, then the tied embedding collided on their links; what overlaps between these is left to the timeline. */
export function stepTime(split: Split, setting: StepSetting): StepTime {
  const { site, sums } = setting;
  const { replicas, stages, microBatches } = split;
  const count = runCount(split);
  const rates = cellRates(split, site);
  const works = worksOf(split, setting);
  const exchanges = exchangesOf(split, sums, rates);
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
      const [aheadRate, backRate] = [rates.ahead[cell] ?? AT_ONCE, rates.back[cell] ?? AT_ONCE];
      let [computes, tensors, exchanged, sent] = [0, 0, 0, 0];
      for (let run = stage; run < count; run += stages) {
        const place = run * replicas + replica;
        const { compute, tensor, forward } = works[place] ?? NO_WORK;
        const exchange = exchanges[place] ?? NO_EXCHANGE;
        const ahead = run + 1 === count ? 0 : sendTime(aheadRate, bytes[run] ?? 0);
        const back = run === 0 ? 0 : sendTime(backRate, bytes[run - 1] ?? 0);
        // Those that share out a sequence wait for one another.
        const ms = forward + exchange.forward + ahead;
        forwardMs[run] = Math.max(forwardMs[run] ?? 0, ms);
        const backward = compute + tensor - forward + exchange.backward + back;
        backwardMs[run] = Math.max(backwardMs[run] ?? 0, backward);
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
  const time = stepOf(slowest ?? IDLE, { reduceMs, updateMs: updateTime(split, sums) });
  return asMeasured(time, split, site);
}

/** What measured runs say of this very plan, beside what they say of all. */
export const measuredFactor = (split: Split, { measured }: PlanSite): number =>
  measured?.get(planName(split)) ?? 1;

export const scaledParts = (parts: StepParts, by: number): StepParts => ({
  computeMs: by * parts.computeMs,
  bubbleMs: by * parts.bubbleMs,
  tensorMs: by * parts.tensorMs,
  exchangeMs: by * parts.exchangeMs,
  sendMs: by * parts.sendMs,
  reduceMs: by * parts.reduceMs,
  updateMs: by * parts.updateMs,
});

function asMeasured(time: StepTime, split: Split, site: PlanSite): StepTime {
  const factor = measuredFactor(split, site);
  if (factor === 1) return time;
  return { totalMs: factor * time.totalMs, parts: scaledParts(time.parts, factor) };
}

/** Of a micro-batch, both ways, in the slowest replica. */
export interface StagePace {
  /** Compute, all-reduces and exchanges: in proportion to its layers. */
  readonly workMs: number;
  /** To its neighbours: whatever its layers. */
  readonly sendMs: number;
}

/** By stage, of a split with one run of layers each. */
export function stagePaces(split: Split, setting: StepSetting): readonly StagePace[] {
  const { sums, site } = setting;
  const rates = cellRates(split, site);
  const works = worksOf(split, setting);
  const exchanges = exchangesOf(split, sums, rates);
  const bytes = sendBytesOf(split, sums);
  return Array.from({ length: split.stages }, (_, stage) => {
    let [workMs, sendMs] = [0, 0];
    for (let cell = stage * split.replicas; cell < (stage + 1) * split.replicas; cell += 1) {
      const { compute, tensor } = works[cell] ?? NO_WORK;
      const { forward, backward } = exchanges[cell] ?? NO_EXCHANGE;
      const [aheadRate, backRate] = [rates.ahead[cell] ?? AT_ONCE, rates.back[cell] ?? AT_ONCE];
      workMs = Math.max(workMs, compute + tensor + forward + backward);
      const ahead = stage + 1 === split.stages ? 0 : sendTime(aheadRate, bytes[stage] ?? 0);
      sendMs = Math.max(
        sendMs,
        ahead + (stage === 0 ? 0 : sendTime(backRate, bytes[stage - 1] ?? 0)),
      );
    }
    return { workMs, sendMs };
  });
}

const AT_ONCE: SendRate = { senders: 1, ports: 1, bytesPerMs: Infinity, latencyMs: 0 };

/** As the links share it: for the splits among which a plan is chosen in the end. */
export function playedStep(split: Split, setting: StepSetting): StepTime {
  const { time } = playedWithin(split, setting, Infinity);
  if (time === undefined) throw new RangeError("a played step has no end");
  return time;
}

/** The same, as long as it takes no more than so many moments. */
export function playedWithin(split: Split, setting: StepSetting, mostMoments: number): PlayedStep {
  const { site, sums } = setting;
  const { stages, replicas, microBatches } = split;
  const works = worksOf(split, setting);
  const timeline = playStep(
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
    mostMoments,
  );
  if (timeline === undefined) return { moments: mostMoments };
  const { totalMs, pipelineMs: endMs, sendMs, exchangeMs, moments } = timeline;
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
  const rest = { reduceMs: totalMs - endMs, updateMs: updateTime(split, sums) };
  return { time: asMeasured(stepOf(busiest, rest), split, site), moments };
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

const NO_EXCHANGE = { forward: 0, backward: 0 };

/** Milliseconds of a micro-batch, by run × replicas + replica; none where nothing is exchanged. */
function exchangesOf(
  split: Split,
  sums: LayerSums,
  rates: CellRates,
): readonly (typeof NO_EXCHANGE)[] {
  const { stages, replicas } = split;
  const [experts, contexts] = [expertDegree(split), contextDegree(split)];
  if (experts === 1 && contexts === 1) return [];
  const found: (typeof NO_EXCHANGE)[] = [];
  for (let run = 0; run < runCount(split); run += 1) {
    const tokens = exchangeBytes(split, run, sums);
    const tokenCalls = exchangeCalls(split, run, sums);
    const keyValues = contextBytes(split, run, sums);
    const ringCalls = contextCalls(split, run, sums);
    for (let replica = 0; replica < replicas; replica += 1) {
      const cell = (run * replicas + replica) % (stages * replicas);
      const ms = { forward: 0, backward: 0 };
      const add = (bytes: PassBytes, calls: number, rate: ExchangeRate | undefined): void => {
        if (bytes.forward === 0 || rate === undefined) return;
        const once = bytes.forward * rate.msPerByte + calls * rate.latencyMs;
        ms.forward += once;
        ms.backward += (once * bytes.backward) / bytes.forward;
      };
      add(tokens, tokenCalls, rates.experts[cell]);
      add(keyValues, ringCalls, rates.rings[Math.floor(cell / contexts)]);
      found.push(ms);
    }
  }
  return found;
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

export function updateTime(split: Split, sums: LayerSums): number {
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
