/**
 * @file Runs dispatchers over scenarios and says how much of the best bandwidth they reach: GBE, §3.3 of BandPilot.
 *
 * The best is exact over per-host counts by the true values (that is exact over all subsets, because the truths gain by intra-host
 * bandwidth). GBE is what the pick has of it, in percent; the loss is the difference in GB/s. A pick that throws or has no answer is
 * given the compact choice, and counted. A pick whose bandwidth the data does not say (files with holes) counts in no mean.
 */

import type { BandwidthPredictor, Candidate } from "../../domain/bandwidth/bandwidth-port.ts";
import { exactCounts } from "../../scheduling/pick/exact-counts.ts";
import type { PickSearch } from "../../scheduling/pick/search.ts";
import { mean, quantile } from "../statistics.ts";
import type { Dispatcher } from "./rivals.ts";
import type { Scenario } from "./scenarios.ts";
import type { Truth } from "./truth.ts";

export interface Judged {
  readonly scenario: Scenario;
  readonly pick: Candidate;
  readonly gbs: number;
  readonly bestGbs: number;
}

export interface Figures {
  readonly gbePercent: number;
  /** The worst single scenario. */
  readonly worstPercent: number;
  /** The 1st percentile of single scenarios. */
  readonly lowPercent: number;
  readonly lossGbs: number;
  readonly scenarios: number;
}

/** The truth as a model that knows everything. */
export const truthPredictor = ({ name, domain, gbs }: Truth): BandwidthPredictor => ({
  version: `${name} as measured`,
  domain,
  predict: (candidates) => candidates.map((candidate) => gbs(candidate) ?? 0),
});

export const bestGbs = (truth: Truth, scenarios: readonly Scenario[]): readonly number[] => {
  const predictor = truthPredictor(truth);
  return scenarios.map(
    ({ gpus, freeMasks }) => exactCounts({ predictor, gpus, freeMasks })?.predictedGbs ?? NaN,
  );
};

export interface Field {
  readonly truth: Truth;
  readonly scenarios: readonly Scenario[];
  /** Of each scenario. */
  readonly best: readonly number[];
}

export function judge({ truth, scenarios, best }: Field, dispatch: Dispatcher): readonly Judged[] {
  return scenarios.map((scenario, at) => {
    const pick = dispatch(scenario);
    return { scenario, pick, gbs: truth.gbs(pick) ?? 0, bestGbs: best[at] ?? NaN };
  });
}

/** Searches that find nothing fall back to `otherwise`. */
export const searching =
  (search: PickSearch, predictor: BandwidthPredictor, otherwise: Dispatcher): Dispatcher =>
  (scenario): Candidate =>
    search({ predictor, gpus: scenario.gpus, freeMasks: scenario.freeMasks })?.pick ??
    otherwise(scenario);

export const gbePercent = ({ gbs, bestGbs: best }: Judged): number => (100 * gbs) / best;

/** The data says what the pick has and what is best: nothing that was measured is 0. */
export const isKnown = ({ gbs, bestGbs: best }: Judged): boolean => gbs > 0 && best > 0;

/** One GPU has no bandwidth, and a forced pick is no merit of the method. */
export const isCounted = (judged: Judged): boolean =>
  judged.scenario.gpus > 1 && !judged.scenario.isForced && isKnown(judged);

export function figuresOf(judged: readonly Judged[]): Figures {
  const counted = judged.filter(isCounted);
  const shares = counted.map(gbePercent);
  return {
    gbePercent: mean(shares),
    worstPercent: shares.reduce((worst, share) => Math.min(worst, share), Infinity),
    lowPercent: quantile(shares, 0.01),
    lossGbs: mean(counted.map(({ gbs, bestGbs: best }) => best - gbs)),
    scenarios: counted.length,
  };
}
