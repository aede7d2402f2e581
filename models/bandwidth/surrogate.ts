/**
 * @file Trains a bandwidth surrogate from measured samples, from nothing or from an earlier model.
 *
 * The Transformer learns logarithms, standardised, through the clamp: where the slowest member host explains a measurement, any
 * higher answer is right, for all that such a measurement says of the network is that it is no slower. From an earlier model: the
 * offsets of hosts are found anew from what that model is wrong by, then a few steps go on from its parameters, on the new samples
 * and, with less weight, on those that the model remembers: those with a host that has changed since are shown as they were, with
 * that host's former offset, for they still say what hosts without that offset do. The same request gives the same model to the
 * last bit on one machine.
 */

import type {
  BandwidthDomain,
  BandwidthPredictor,
  BandwidthSample,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { areSameMessages, USUAL_MESSAGES } from "../../domain/bandwidth/message-profile.ts";
import { crossFitted } from "./boosted-trees.ts";
import { fabricFactors, factorLog, type FabricFactors } from "./fabric-factors.ts";
import {
  FEATURE_COUNT,
  featureSettings,
  hostLooks,
  tokensOf,
  type FeatureSettings,
} from "./features.ts";
import { hostOffsets } from "./host-offsets.ts";
import { insideGbs } from "./inside.ts";
import { mostMeasured, otherMessages } from "./messages-measured.ts";
import { openSyncPredictor, type SurrogateModel, type SurrogateSettings } from "./predictor.ts";
import { sharesOf, type RememberedSample } from "./residual-memory.ts";
import type { TrainingTask } from "./training.ts";
import { trainInThread } from "./training-thread-port.ts";

export {
  openSyncPredictor,
  type SurrogateModel,
  type SurrogateOptions,
  type SurrogateSettings,
} from "./predictor.ts";

interface WeightedSample extends BandwidthSample {
  /** How much it counts; 1 when absent. */
  readonly weight?: number;
}

interface TrainRequest {
  readonly domain: BandwidthDomain;
  readonly samples: readonly WeightedSample[];
  readonly seed: number;
  readonly budget?: TrainBudget;
  /** A model to go on from. */
  readonly from?: SurrogateModel;
  /** Whether answers will be clamped to the slowest member host; true when absent. Of no account with `from`. */
  readonly clamp?: boolean;
}

interface TrainBudget {
  /** Steps of training: a count and not a time, so that the answer does not depend on the machine. */
  readonly steps: number;
}

interface Way {
  readonly steps: number;
  readonly rate: number;
  readonly decay: number;
  readonly batch: number;
}

/** About 3 s of one core. */
const FROM_NOTHING: Way = Object.freeze({ steps: 500, rate: 4e-3, decay: 0.3, batch: 32 });
/** About 0.6 s. */
const FINE_TUNING: Way = Object.freeze({ steps: 100, rate: 3e-3, decay: 0.3, batch: 32 });
/**
 * Where hosts have changed: what an offset means has to be learned, which takes more steps; smaller batches, so that it takes little more
 * time. With 100 steps groups with such a host were left a fifth too fast, and picks took them.
 */
const RELEARNING: Way = Object.freeze({ steps: 200, rate: 3e-3, decay: 0.3, batch: 16 });
/** Of a remembered sample against a new one: what still holds is as good. */
const REMEMBERED_WEIGHT = 1;
/** The same where a host in it has changed since. */
const FORMER_WEIGHT = 0.15;
/** The newest samples that a model remembers. */
const MOST_REMEMBERED = 1_000;
/** Relative: a measurement this close to what the slowest member host gives is explained by it. */
const EXPLAINED = 0.03;
/** In place of no limit, as a standardised logarithm. */
const NO_LIMIT = 1e4;

export interface TrainedSurrogate extends SurrogateModel {
  readonly metrics: TrainingMetrics;
}

/** Accuracy on the samples that it was trained on: what it can do is shown by others. */
interface TrainingMetrics extends Accuracy {
  readonly sampleCount: number;
  readonly steps: number;
}

/** Of predictions against measurements. */
export interface Accuracy {
  /** 1 = all variance explained; not finite for fewer than two different values. */
  readonly r2: number;
  /** Mean absolute error, percent of what was measured. */
  readonly mapePercent: number;
}

export async function trainSurrogate(request: TrainRequest): Promise<TrainedSurrogate> {
  const { domain, from, seed } = request;
  const messages =
    from === undefined ? mostMeasured(request.samples) : (from.settings.messages ?? USUAL_MESSAGES);
  const fresh = request.samples.filter(
    ({ shares, gbs, messages: own = USUAL_MESSAGES }) =>
      shares.length > 1 && gbs > 0 && areSameMessages(own, messages),
  );
  if (fresh.length === 0) {
    throw new RangeError("no sample lies on several hosts. Measure sets over at least two hosts.");
  }
  const fabric = fabricFactors(domain, [...fresh, ...rawMemory(domain, from?.settings)]);
  const features =
    fabric === undefined
      ? learnedFeatures(request, fresh)
      : (from?.settings.features ?? featureSettings(domain, fresh.length));
  const others = otherMessages(request, messages);
  const earlier = rehearsed(domain, features, from?.settings);
  const samples = [...fresh, ...earlier.still];
  const scale =
    from?.settings ??
    spreadOf(fresh.map(({ shares, gbs }) => Math.log(gbs) - lostLog(domain, fabric, shares)));
  const settings: SurrogateSettings = {
    features,
    meanLog: scale.meanLog,
    spreadLog: scale.spreadLog,
    clamp: from?.settings.clamp ?? request.clamp ?? true,
    memory: [],
    ...(fabric !== undefined && { fabric }),
    ...(!areSameMessages(messages, USUAL_MESSAGES) && { messages }),
    ...(others.length > 0 && { others }),
  };
  const hasChanged =
    from !== undefined && !areSameOffsets(from.settings.features.offsets, features.offsets);
  const way = from === undefined ? FROM_NOTHING : hasChanged ? RELEARNING : FINE_TUNING;
  const steps = request.budget?.steps ?? way.steps;
  const task: TrainingTask = {
    featureCount: FEATURE_COUNT,
    samples: [
      ...trainingSamples(domain, samples, settings),
      ...trainingSamples(domain, earlier.before, {
        ...settings,
        features: from?.settings.features ?? features,
      }),
    ],
    seed,
    ...way,
    steps,
    ...(from !== undefined && { from: from.parameters }),
  };
  const parameters = await trainInThread(task);
  const memory = remembered(domain, samples, { parameters, settings });
  const model: SurrogateModel = { parameters, settings: { ...settings, memory } };
  const accuracy = accuracyOf(openSyncPredictor(model, domain), fresh);
  return { ...model, metrics: { ...accuracy, sampleCount: fresh.length, steps } };
}

function areSameOffsets(a: FeatureSettings["offsets"], b: FeatureSettings["offsets"]): boolean {
  const hosts = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...hosts].every((host) => a[host] === b[host]);
}

function learnedFeatures(
  { domain, from, seed }: TrainRequest,
  samples: readonly BandwidthSample[],
): FeatureSettings {
  const old = from?.settings.features ?? featureSettings(domain, samples.length);
  const expected =
    from === undefined
      ? crossFitted({ domain, samples, seed })
      : openSyncPredictor(from, domain, { memory: false }).predict(
          samples.map(({ shares }) => shares),
        );
  const found = hostOffsets(
    samples.map(({ shares, gbs }, index) => ({
      hosts: shares.map(({ host }) => domain.hosts[host]?.id ?? ""),
      residual: Math.log(gbs / (expected[index] ?? gbs)),
    })),
  );
  const offsets = new Map(Object.entries(old.offsets));
  for (const [host, offset] of Object.entries(found)) {
    offsets.set(host, (offsets.get(host) ?? 0) + offset);
  }
  return { ...old, offsets: Object.fromEntries(offsets) };
}

/** What the earlier model remembers: what still holds, and what held before a host in it changed. */
interface Rehearsed {
  readonly still: readonly WeightedSample[];
  readonly before: readonly WeightedSample[];
}

function rehearsed(
  domain: BandwidthDomain,
  { offsets }: FeatureSettings,
  earlier: SurrogateSettings | undefined,
): Rehearsed {
  const still: WeightedSample[] = [];
  const before: WeightedSample[] = [];
  const isSame = (host: string): boolean => offsets[host] === earlier?.features.offsets[host];
  for (const sample of earlier?.memory ?? []) {
    const shares = sharesOf(domain, sample);
    if (shares === undefined) continue;
    const gbs = Math.exp(sample.logGbs);
    if (sample.hosts.every(isSame)) still.push({ shares, gbs, weight: REMEMBERED_WEIGHT });
    else before.push({ shares, gbs, weight: FORMER_WEIGHT });
  }
  return { still, before };
}

const rawMemory = (
  domain: BandwidthDomain,
  earlier: SurrogateSettings | undefined,
): readonly BandwidthSample[] =>
  (earlier?.memory ?? []).flatMap((sample) => {
    const shares = sharesOf(domain, sample);
    return shares === undefined ? [] : [{ shares, gbs: Math.exp(sample.logGbs) }];
  });

/** What the Transformer need not learn. */
const lostLog = (
  domain: BandwidthDomain,
  fabric: FabricFactors | undefined,
  shares: Candidate,
): number => (fabric === undefined ? 0 : factorLog(domain, fabric, shares));

function trainingSamples(
  domain: BandwidthDomain,
  samples: readonly WeightedSample[],
  { features, meanLog, spreadLog, clamp, fabric }: SurrogateSettings,
): TrainingTask["samples"] {
  const looksOf = hostLooks(domain, features);
  return samples.map(({ shares, gbs, weight = 1 }) => {
    const lost = lostLog(domain, fabric, shares);
    const standardised = (one: number): number => (Math.log(one) - lost - meanLog) / spreadLog;
    const inside = clamp ? insideGbs(domain, shares) : Infinity;
    return {
      tokens: tokensOf(looksOf(shares), features),
      target: standardised(gbs),
      limit: Number.isFinite(inside) ? standardised(inside) : NO_LIMIT,
      weight,
    };
  });
}

/** New ones first: what is beyond the most that is remembered is the oldest. */
function remembered(
  domain: BandwidthDomain,
  samples: readonly WeightedSample[],
  model: SurrogateModel,
): readonly RememberedSample[] {
  const expected = openSyncPredictor(model, domain, { clamp: false }).predict(
    samples.map(({ shares }) => shares),
  );
  return samples.slice(0, MOST_REMEMBERED).map(({ shares, gbs }, index) => {
    const isExplained = model.settings.clamp && gbs >= insideGbs(domain, shares) * (1 - EXPLAINED);
    return {
      hosts: shares.map(({ host }) => domain.hosts[host]?.id ?? ""),
      masks: shares.map(({ mask }) => mask),
      logGbs: Math.log(gbs),
      ...(!isExplained && { residual: Math.log(gbs / (expected[index] ?? gbs)) }),
    };
  });
}

export function accuracyOf(
  predictor: Pick<BandwidthPredictor, "predict">,
  samples: readonly BandwidthSample[],
): Accuracy {
  const predicted = predictor.predict(samples.map(({ shares }) => shares));
  const mean = samples.reduce((sum, { gbs }) => sum + gbs, 0) / samples.length;
  let residual = 0;
  let total = 0;
  let relative = 0;
  samples.forEach(({ gbs }, index) => {
    const error = (predicted[index] ?? NaN) - gbs;
    residual += error ** 2;
    total += (gbs - mean) ** 2;
    relative += Math.abs(error) / gbs;
  });
  return { r2: 1 - residual / total, mapePercent: (100 * relative) / samples.length };
}

function spreadOf(logs: readonly number[]): {
  readonly meanLog: number;
  readonly spreadLog: number;
} {
  const meanLog = logs.reduce((sum, log) => sum + log, 0) / logs.length;
  const variance = logs.reduce((sum, log) => sum + (log - meanLog) ** 2, 0) / logs.length;
  // Samples that are all alike have no spread of their own.
  return { meanLog, spreadLog: Math.max(Math.sqrt(variance), 0.1) };
}
