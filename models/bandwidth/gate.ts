/**
 * @file Decides whether a version of a bandwidth model may serve: splits the samples, scores models on those held out, compares.
 *
 * Held out is about a fifth of the *candidates* (all measurements of one set of GPUs are on one side), those whose hashes are below a
 * fifth of their range: so a candidate is held out from training to training, and the version that serves has not seen it either.
 * With few candidates those with the lowest hashes make up what is missing. A version
 * passes when its mean relative error there is smaller than that of the version that serves; without one, when it is
 * smaller than that of a plain guess (the mean of sets with as many GPUs over as many hosts, at the same messages). A tie does not pass.
 * Cost: O(samples · log samples) and two predictions a held-out sample.
 */

import type {
  BandwidthPredictor,
  BandwidthSample,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { messagesText, USUAL_MESSAGES } from "../../domain/bandwidth/message-profile.ts";
import { byCodeUnit } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { HoldoutScore, ModelManifest } from "../../domain/model/model-manifest.ts";

export interface GateSample extends BandwidthSample {
  /** How much it counts in training; those below 1 are not held out. */
  readonly weight: number;
}

const HELD_OUT_SHARE = 0.2;
/** Fewer candidates to hold out say nothing. */
export const LEAST_HELD_OUT = 4;
/** As many as are held out must be left to learn from, and more. */
export const LEAST_CANDIDATES = 3 * LEAST_HELD_OUT;

export interface Split {
  readonly training: readonly GateSample[];
  readonly heldOut: readonly GateSample[];
}

/** Undefined when there are too few candidates for both sides. */
export function splitSamples(samples: readonly GateSample[]): Split | undefined {
  const fit = samples.filter(({ weight }) => weight >= 1);
  const names = [...new Set(fit.map(({ shares }) => nameOf(shares)))];
  if (names.length < LEAST_CANDIDATES) return undefined;
  const ranked = names
    .map((name) => ({ name, place: hashOf(name) / 2 ** 32 }))
    .sort((a, b) => a.place - b.place || byCodeUnit(a.name, b.name));
  const below = ranked.filter(({ place }) => place < HELD_OUT_SHARE).length;
  const count = Math.min(Math.max(LEAST_HELD_OUT, below), Math.floor(names.length / 3));
  const chosen = new Set(ranked.slice(0, count).map(({ name }) => name));
  return {
    training: samples.filter(({ shares }) => !chosen.has(nameOf(shares))),
    heldOut: fit.filter(({ shares }) => chosen.has(nameOf(shares))),
  };
}

/** What is asked about: GPUs, and the messages that they send. */
export type Asked = Pick<BandwidthSample, "shares" | "messages">;
export type PredictAsked = (asked: readonly Asked[]) => readonly number[];

/** Each with its own messages. */
export const predictAsked =
  (predictor: Pick<BandwidthPredictor, "predict" | "at">): PredictAsked =>
  (asked) =>
    asked.flatMap(({ shares, messages = USUAL_MESSAGES }) =>
      (predictor.at?.(messages) ?? predictor).predict([shares]),
    );

export function scoreOf(predict: PredictAsked, samples: readonly BandwidthSample[]): HoldoutScore {
  const predicted = predict(samples);
  const errors = samples.map(({ gbs }, at) => Math.abs((predicted[at] ?? NaN) - gbs) / gbs);
  return {
    mape: errors.reduce((sum, error) => sum + error, 0) / errors.length,
    samples: errors.length,
  };
}

/** What anyone would guess: the mean of the training's sets of as many GPUs over as many hosts, else of all. */
export function plainGuess(training: readonly BandwidthSample[]): PredictAsked {
  const groups = new Map<string, number[]>();
  for (const sample of training) {
    const key = sizeOf(sample);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [sample.gbs]);
    else group.push(sample.gbs);
  }
  const all = mean(training.map(({ gbs }) => gbs));
  return (asked) =>
    asked.map((each) => {
      const group = groups.get(sizeOf(each));
      return group === undefined ? all : mean(group);
    });
}

/** `serving`: absent when none serves, or none that can be used on the hosts as they are now. */
export function evaluateVersion(
  own: HoldoutScore,
  rivals: {
    readonly serving?: HoldoutScore & { readonly version: string };
    readonly plain: HoldoutScore;
  },
): ModelManifest["gate"] {
  const { serving, plain } = rivals;
  const on = `on ${own.samples} measurements that it was not shown`;
  if (!Number.isFinite(own.mape))
    return { holds: false, reason: `its predictions are no numbers ${on}` };
  const rival =
    serving === undefined
      ? { name: "a plain guess by size", mape: plain.mape }
      : { name: serving.version, mape: serving.mape };
  const holds = !(own.mape >= rival.mape);
  const verdict = holds ? "better than" : "not better than";
  return {
    holds,
    reason: `${percent(own.mape)} off ${on}, ${verdict} ${rival.name} with ${percent(rival.mape)}`,
  };
}

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

const sizeOf = ({ shares, messages = USUAL_MESSAGES }: Asked): string =>
  `${shares.reduce((sum, { mask }) => sum + popCount(mask), 0)}/${shares.length}/${messagesText(messages)}`;

const nameOf = (shares: Candidate): string =>
  shares.map(({ host, mask }) => `${host}:${mask}`).join(" ");

const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

/** FNV-1a over the characters, then MurmurHash3's last steps, because short texts that are alike leave its upper bits alike. */
function hashOf(text: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1)
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}
