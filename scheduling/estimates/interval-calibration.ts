/**
 * @file Calibrates the interval of a start forecast: moves and stretches it by the errors of the fleet's earlier forecasts.
 *
 * The plays contain the randomness of run times and arrivals. They do not know that future jobs may differ from past ones, so their
 * intervals are too narrow, and biased for as long as the workload is. The method is conformal prediction. A score is the distance of a
 * true start from the median, in logarithms of the time since the question, measured in reaches of its side. The interval reaches from
 * the 10th to the 90th percentile of the scores, and its median is their median. A reach is half the width of the plays' interval plus
 * `SLACK`, because the agreement of the plays says little about their error. If the next start resembles the scored ones, it lies in the
 * interval with the wanted probability, however good or bad the plays are.
 * The scores come from the fleet's own last estimates (start-estimates.ts), so they follow the workload; of these those `NEIGHBOURS` count whose
 * longest play was nearest to the longest of these plays, because short waits err otherwise than long ones. A job that still waits counts as
 * later than now, by the product-limit estimate (Kaplan and Meier); without it the long waits would be missing. While there are few
 * scores, the stretch of a trace stands for `PRIOR_SCORES` of them. Cost: O(scores · log scores) a stretch, O(1) an interval.
 */

import type { KeptEstimate, Interval } from "../ledger/rules/start-estimates.ts";

/** The calibrated interval, in reaches from the median of the plays: before it below 0, after it above. Ascending. */
export interface Stretch {
  readonly from: number;
  readonly median: number;
  readonly to: number;
}

export interface Score {
  readonly reaches: number;
  /** The job still waits: its start lies here or later. */
  readonly isOpen?: boolean;
}

/** Fitted on the first half of Philly's slice (`bench queue --only estimates`). */
export const FITTED: Stretch = Object.freeze({ from: -1.2, median: -0.25, to: 0.35 });
const PRIOR_SCORES = 8;
/** Enough to bear a tenth on either side, although estimates of one time err together. */
const NEIGHBOURS = 64;
const COVERAGE = 0.8;

/** In logarithms: seven times as long, or a seventh. */
const SLACK = 2;
/** Added to every time: below it the ratio of two times says nothing. */
const LEAST_MS = 10_000;
/** The horizon of plays: one that saw no start is taken to have seen it there. */
const LATEST_MS = 30 * 86_400_000;
const EPSILON = 1e-9;

/** The stretch that this fleet's own past estimates of such plays give now. */
export function learnedStretch(
  ownEstimates: readonly KeptEstimate[],
  { toMs }: Pick<Interval, "toMs">,
  nowMs: number,
): Stretch {
  const longest = sinceLog(toMs, nowMs);
  const awayOf = (each: KeptEstimate): number =>
    Math.abs(sinceLog(each.toMs, each.askedAtMs) - longest);
  const scores = ownEstimates
    .flatMap((each) => {
      const score = scoreNow(each, nowMs);
      return score === undefined ? [] : [{ score, away: awayOf(each) }];
    })
    .sort((a, b) => a.away - b.away)
    .slice(0, NEIGHBOURS)
    .map(({ score }) => score);
  const called = stretchOf(scores);
  const mixed = (own: number, fitted: number): number =>
    (scores.length * own + PRIOR_SCORES * fitted) / (scores.length + PRIOR_SCORES);
  return {
    from: mixed(called.from, FITTED.from),
    median: mixed(called.median, FITTED.median),
    to: mixed(called.to, FITTED.to),
  };
}

function scoreNow(each: KeptEstimate, nowMs: number): Score | undefined {
  const { askedAtMs, outcome } = each;
  const isOpen = outcome.kind === "waits";
  const startMs = isOpen ? nowMs : outcome.atMs;
  const reaches = scoreOf(each, { nowMs: askedAtMs, startMs });
  return reaches === undefined ? undefined : { reaches, ...(isOpen && { isOpen }) };
}

/** The estimate with its interval moved and stretched. An infinite end stays infinite. */
export function stretched<Estimate extends Interval>(
  estimate: Estimate,
  nowMs: number,
  stretch: Stretch = FITTED,
): Estimate {
  const { fromMs, medianMs, toMs } = estimate;
  if (medianMs === Infinity) return estimate;
  const middle = sinceLog(medianMs, nowMs);
  const at = (reaches: number): number => {
    if (reaches === 0 || (reaches > 0 && toMs === Infinity)) return medianMs;
    const side = sinceLog(reaches < 0 ? fromMs : toMs, nowMs);
    const found = atOf(middle + reaches * reach(middle, side), nowMs);
    return reaches < 0 ? Math.min(medianMs, found) : Math.max(medianMs, found);
  };
  return {
    ...estimate,
    fromMs: at(stretch.from),
    medianMs: at(stretch.median),
    toMs: toMs === Infinity ? Infinity : at(stretch.to),
  };
}

/** The true start in reaches of the plays' interval: −1 and 1 are one reach before and after the median. Absent where the plays have no median. */
export function scoreOf(
  { fromMs, medianMs, toMs }: Interval,
  { nowMs, startMs }: { readonly nowMs: number; readonly startMs: number },
): number | undefined {
  if (medianMs === Infinity) return undefined;
  const middle = sinceLog(medianMs, nowMs);
  const off = sinceLog(startMs, nowMs) - middle;
  return off / reach(middle, sinceLog(off < 0 ? fromMs : toMs, nowMs));
}

/** The stretch within which the next score lies with the probability `coverage`, with half of the rest on either side. */
export function stretchOf(scores: readonly Score[], coverage = COVERAGE): Stretch {
  if (scores.length === 0) return { from: -1, median: 0, to: 1 };
  // At equal distance a start comes before a job that still waits.
  const sorted = [...scores].sort((a, b) =>
    a.reaches === b.reaches
      ? Number(a.isOpen === true) - Number(b.isOpen === true)
      : a.reaches - b.reaches,
  );
  const count = sorted.length;
  let left = 1;
  const places = sorted.flatMap(({ reaches, isOpen }, at) => {
    if (isOpen === true) return [];
    left *= 1 - 1 / (count - at);
    return [{ reaches, left }];
  });
  // The next score falls into each of the count + 1 gaps with equal probability.
  const out = (((1 - coverage) / 2) * (count + 1)) / count;
  const below = places.filter((place) => 1 - place.left <= out + EPSILON).at(-1) ?? places[0];
  const above = places.find((place) => place.left <= out - 1 / count + EPSILON);
  const middle = places.find((place) => place.left <= 0.5 + EPSILON);
  // Where too few jobs have started, the largest score stands for the quantile.
  const most = sorted.at(-1)?.reaches ?? 0;
  const to = above?.reaches ?? most;
  const median = Math.min(to, middle?.reaches ?? most);
  return { from: Math.min(median, below?.reaches ?? 0), median, to };
}

const reach = (middle: number, side: number): number => Math.abs(side - middle) + SLACK;

const sinceLog = (atMs: number, nowMs: number): number =>
  Math.log(LEAST_MS + Math.min(LATEST_MS, Math.max(0, atMs - nowMs)));

const atOf = (log: number, nowMs: number): number => nowMs + Math.max(0, Math.exp(log) - LEAST_MS);
