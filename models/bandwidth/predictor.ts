/**
 * @file A surrogate model as a synchronous predictor: lookup tables, Transformer, memory of residuals, clamp.
 *
 * An answer depends on the looks of the candidate's hosts alone, so it is kept by them; the same candidate gives the same bits
 * in any batch and after any history. Cost: one forward pass for looks that were not asked before, a look-up after.
 */

import type {
  Appraised,
  BandwidthDomain,
  BandwidthPredictor,
  Candidate,
  PickShare,
} from "../../domain/bandwidth/bandwidth-port.ts";
import type { MessageProfile } from "../../domain/bandwidth/message-profile.ts";
import { simdKernel } from "./dense-kernel.ts";
import {
  FEATURE_COUNT,
  hostLooks,
  tokensOf,
  type FeatureSettings,
  type HostLook,
  type HostLooks,
} from "./features.ts";
import { factorLog, mostLog, strengthLog, wayOutOf, type FabricFactors } from "./fabric-factors.ts";
import { forwardPass } from "./forward.ts";
import { appraised, type SeenBandwidth } from "./appraised.ts";
import type { PredictorOptions } from "./inside.ts";
import { atOtherMessages, type OtherMessages } from "./other-messages.ts";
import { residualCorrection, type RememberedSample } from "./residual-memory.ts";
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
  /** Trained to be right after the clamp: without it its answers are of the network alone. */
  readonly clamp: boolean;
  /** What it was trained on. */
  readonly memory: readonly RememberedSample[];
  /** The messages of all that; `USUAL_MESSAGES` when absent. */
  readonly messages?: MessageProfile;
  /** Of a large cluster: what its hosts and racks take from every answer. */
  readonly fabric?: FabricFactors;
  /** What was measured with other messages. */
  readonly others?: readonly OtherMessages[];
}

export interface SurrogateOptions extends PredictorOptions {
  /** Corrected by what was measured; true when absent. */
  readonly memory?: boolean;
}

/** Answers are forgotten when there are more. */
const MOST_KNOWN = 100_000;

export function openSyncPredictor(
  model: SurrogateModel,
  domain: BandwidthDomain,
  options: SurrogateOptions = {},
): BandwidthPredictor {
  const { version = "unnamed", clamp = model.settings.clamp } = options;
  const { looksOf, gbsOf } = answerFrame(model, domain, options);
  const forward = forwardPass(transformerShape(FEATURE_COUNT), model.parameters, simdKernel());
  const known = new Map<string, SeenBandwidth>();
  const answersFor = (candidates: readonly Candidate[]): readonly (SeenBandwidth | undefined)[] => {
    const open = new Map<string, readonly HostLook[]>();
    if (known.size > MOST_KNOWN) known.clear();
    const keys = candidates.map((candidate) => {
      const looks = looksOf(candidate);
      const key = looks.map(({ name }) => name).join();
      if (!known.has(key)) open.set(key, looks);
      return key;
    });
    const asked = [...open];
    const answers = forward(asked.map(([, looks]) => tokensOf(looks, model.settings.features)));
    asked.forEach(([key, looks], index) => known.set(key, gbsOf(looks, answers[index] ?? NaN)));
    const { fabric } = model.settings;
    if (fabric === undefined) return keys.map((key) => known.get(key));
    return keys.map((key, at) => {
      const seen = known.get(key);
      const shares = candidates[at] ?? [];
      const most = Math.exp(mostLog(domain, fabric, shares));
      const factor = Math.exp(factorLog(domain, fabric, shares));
      return seen && { ...seen, gbs: Math.min(seen.gbs, most) * factor };
    });
  };
  const appraise = (candidates: readonly Candidate[]): readonly Appraised[] =>
    appraised(domain, candidates, { clamp, answersFor });
  const predict = (candidates: readonly Candidate[]): readonly number[] =>
    appraise(candidates).map(({ predictedGbs }) => predictedGbs);
  const kinds = domain.hosts.map(() => new Map<number, string>());
  const kindOf = (share: PickShare): string => {
    const known = kinds[share.host]?.get(share.mask);
    if (known !== undefined) return known;
    const kind = looksOf([share])[0]?.name ?? "";
    kinds[share.host]?.set(share.mask, kind);
    return kind;
  };
  const { fabric } = model.settings;
  const own = {
    version,
    domain,
    isClamped: clamp,
    predict,
    appraise,
    kindOf,
    ...(fabric !== undefined && {
      strengthOf: (host: number): number => Math.exp(strengthLog(domain, fabric, host)),
      wayOutOf: (host: number): number => wayOutOf(domain, fabric, host),
    }),
  };
  const at = atOtherMessages(own, { settings: model.settings, looksOf, answersFor });
  return { ...own, at };
}

/** The parts around the Transformer, however it is computed. */
interface AnswerFrame {
  readonly looksOf: HostLooks;
  /** From the Transformer's answer. */
  readonly gbsOf: (looks: readonly HostLook[], answer: number) => SeenBandwidth;
}

export function answerFrame(
  { settings, parameters }: SurrogateModel,
  domain: BandwidthDomain,
  { version = "unnamed", memory = true }: SurrogateOptions,
): AnswerFrame {
  const wanted = parameterCount(transformerShape(FEATURE_COUNT));
  if (parameters.length !== wanted) {
    throw new RangeError(
      `model ${version} has ${String(parameters.length)} parameters, this release reads ${String(wanted)}. Train it again.`,
    );
  }
  const looksOf = hostLooks(domain, settings.features);
  const correction = residualCorrection(domain, memory ? settings.memory : [], looksOf);
  return {
    looksOf,
    gbsOf: (looks, answer) => {
      const { log, unseen } = correction(looks);
      const gbs = Math.exp(settings.meanLog + settings.spreadLog * answer + log);
      return { gbs, exception: log, unseen };
    },
  };
}
