/**
 * @file The bandwidth surrogate: samples → model, model → predictor.
 *
 * A model is its parameters (one vector) and its settings (plain data, fit for JSON). GPUs of one host are answered by the lookup
 * table, exactly; GPUs over several hosts by the Transformer. The clamp (a group is not faster than its slowest member host) is an
 * option of the predictor. The same request gives the same model to the last bit.
 */

import type {
  BandwidthDomain,
  BandwidthPredictor,
  BandwidthSample,
  Candidate,
} from "../domain/bandwidth-port.ts";
import {
  FEATURE_COUNT,
  featureSettings,
  hostTokens,
  type FeatureSettings,
  type Token,
} from "./features.ts";
import { forwardPass } from "./forward.ts";
import { trainParameters } from "./training.ts";
import { parameterCount, transformerShape } from "./transformer.ts";

export interface SurrogateModel {
  readonly parameters: Float32Array;
  readonly settings: SurrogateSettings;
}

/** Plain data: it goes through JSON unchanged. */
export interface SurrogateSettings {
  readonly features: FeatureSettings;
  /** Of the logarithms of the bandwidths that the model learned from. */
  readonly meanLog: number;
  readonly spreadLog: number;
}

export interface WeightedSample extends BandwidthSample {
  /** How much it counts; 1 when absent. */
  readonly weight?: number;
}

export interface TrainRequest {
  readonly domain: BandwidthDomain;
  readonly samples: readonly WeightedSample[];
  readonly seed: number;
  readonly budget?: TrainBudget;
  /** A model to go on from. */
  readonly from?: SurrogateModel;
}

export interface TrainBudget {
  /** Steps of training: a count and not a time, so that the answer does not depend on the machine. */
  readonly steps: number;
}

/** From nothing and going on from a model. */
export const USUAL_STEPS = 800;
export const FINE_TUNING_STEPS = 150;

const FROM_NOTHING = Object.freeze({ rate: 2e-3, decay: 0.01 });
const FINE_TUNING = Object.freeze({ rate: 7e-4, decay: 0.01 });

export interface TrainedSurrogate extends SurrogateModel {
  readonly metrics: TrainingMetrics;
}

export interface TrainingMetrics extends Accuracy {
  readonly sampleCount: number;
  readonly steps: number;
}

/** Of predictions against measurements. */
export interface Accuracy {
  /** 1 = all variance explained; NaN of fewer than two different values. */
  readonly r2: number;
  /** Mean absolute error, percent of what was measured. */
  readonly mapePercent: number;
}

export async function trainSurrogate(request: TrainRequest): Promise<TrainedSurrogate> {
  const { domain, from, seed } = request;
  const samples = request.samples.filter(({ shares }) => shares.length > 1);
  if (samples.length === 0) {
    throw new RangeError("no sample lies on several hosts. Measure sets over at least two hosts.");
  }
  const logs = samples.map(({ gbs }) => Math.log(gbs));
  const features = from?.settings.features ?? featureSettings(domain);
  const settings: SurrogateSettings = from?.settings ?? { features, ...spreadOf(logs) };
  const tokenise = hostTokens(domain, features);
  const steps = request.budget?.steps ?? (from === undefined ? USUAL_STEPS : FINE_TUNING_STEPS);
  const parameters = await trainParameters({
    featureCount: FEATURE_COUNT,
    samples: samples.map(({ shares, gbs, weight = 1 }) => ({
      tokens: tokenise(shares),
      target: (Math.log(gbs) - settings.meanLog) / settings.spreadLog,
      weight,
    })),
    seed,
    steps,
    ...(from === undefined ? FROM_NOTHING : FINE_TUNING),
    ...(from !== undefined && { from: from.parameters }),
  });
  const model: SurrogateModel = { parameters, settings };
  const accuracy = accuracyOf(openSyncPredictor(model, domain), samples);
  return { ...model, metrics: { ...accuracy, sampleCount: samples.length, steps } };
}

export interface PredictorOptions {
  readonly version?: string;
  /** No faster than the slowest member host; one GPU on a host is no limit. */
  readonly clamp?: boolean;
}

/** Answers in this thread, in plain arrays. */
export function openSyncPredictor(
  model: SurrogateModel,
  domain: BandwidthDomain,
  { version = "unnamed", clamp = true }: PredictorOptions = {},
): BandwidthPredictor {
  const { settings, parameters } = model;
  const shape = transformerShape(FEATURE_COUNT);
  if (parameters.length !== parameterCount(shape)) {
    throw new RangeError(
      `model ${version} has ${String(parameters.length)} parameters, this release reads ${String(parameterCount(shape))}. Train it again.`,
    );
  }
  const tokenise = hostTokens(domain, settings.features);
  const forward = forwardPass(shape, parameters);
  const known = new Map<string, number>();
  const predict = (candidates: readonly Candidate[]): readonly number[] => {
    const tokens = candidates.map((candidate) =>
      candidate.length > 1 ? tokenise(candidate) : undefined,
    );
    const keys = tokens.map((some) => (some === undefined ? undefined : keyOf(some)));
    const open = new Map<string, readonly Token[]>();
    keys.forEach((key, index) => {
      const some = tokens[index];
      if (key !== undefined && some !== undefined && !known.has(key)) open.set(key, some);
    });
    const answers = forward([...open.values()]);
    [...open.keys()].forEach((key, index) => {
      const log = settings.meanLog + settings.spreadLog * (answers[index] ?? NaN);
      known.set(key, Math.exp(log));
    });
    return candidates.map((candidate, index) => {
      const key = keys[index];
      const inside = insideGbs(domain, candidate);
      if (key === undefined) return inside;
      const gbs = known.get(key) ?? NaN;
      return clamp ? Math.min(gbs, inside) : gbs;
    });
  };
  return { version, domain, isClamped: clamp, predict };
}

export function accuracyOf(
  predictor: BandwidthPredictor,
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

const keyOf = (tokens: readonly Token[]): string =>
  tokens.map(({ features, count }) => `${String(count)}x${features.join()}`).join("|");

/** The slowest member host; what was not measured sets no limit. */
function insideGbs(domain: BandwidthDomain, candidate: Candidate): number {
  let least = Infinity;
  for (const { host, mask } of candidate) {
    if ((mask & (mask - 1)) === 0) continue;
    least = Math.min(least, domain.intraGbs(host, mask) ?? Infinity);
  }
  return least;
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
