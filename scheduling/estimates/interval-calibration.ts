/**
 * @file Calibrates the interval of a start forecast: moves and stretches it by the errors of the fleet's earlier forecasts.
 *
 * The plays contain the randomness of run times and arrivals. They do not know that future jobs may differ from past ones, so their
 * intervals are too narrow, and biased for as long as the workload is. Nor do they know what a job's own wait has shown of it: one that
 * has waited for long waits for long. So the middle of an estimate is the geometric mean of the plays' median, of their latest start and of
 * the time waited so far, which counts as the median while it is shorter (`withWait`). The method is conformal prediction:
 * a score is the distance of a true start from that middle, in logarithms of the time since the question. The interval reaches from the 10th to the 90th percentile of the scores, and its median is
 * their median. If the next start resembles the scored ones, it lies in the interval with the wanted probability, however good or bad the
 * plays are.
 * The scores come from the fleet's own last estimates (start-estimates.ts), so they follow the workload; of these those `NEIGHBOURS` count whose
 * latest start was nearest to the latest of this one, because short waits err otherwise than long ones. A job that still waits counts as
 * later than now, by the product-limit estimate (Kaplan and Meier); without it the long waits would be missing. While there are few
 * scores, the stretch of traces stands for `PRIOR_SCORES` of them. Cost: O(scores · log scores) a stretch, O(1) an interval.
 */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { KeptEstimate, Interval } from "../ledger/rules/start-estimates.ts";

/** The calibrated interval as distances from the middle of an estimate, in logarithms: earlier below 0, later above. Ascending. */
export interface Stretch {
  readonly from: number;
  readonly median: number;
  readonly to: number;
}

export interface Score {
  /** In logarithms: 1 for a wait e times as long as the middle of its estimate. */
  readonly off: number;
  /** The job still waits: its start lies here or later. */
  readonly isOpen?: boolean;
}

/** Fitted on windows of Philly, Helios and Chronus (docs/decisions/0156). */
export const FITTED: Stretch = Object.freeze({ from: -1.2, median: 0, to: 1.2 });
const PRIOR_SCORES = 8;
/** Enough to bear a tenth on either side, although estimates of one time err together. */
const NEIGHBOURS = 64;
const COVERAGE = 0.8;

/** Added to every time: below it the ratio of two times says nothing. */
const LEAST_MS = 10_000;
/** The horizon of plays: one that saw no start is taken to have seen it there. */
const LATEST_MS = 30 * 86_400_000;
const EPSILON = 1e-9;

/** The estimate with the wait so far in its middle, as fleets keep it and as it is scored. Without a median it stays as it is. */
export function withWait<Estimate extends Interval>(
  estimate: Estimate,
  { requestedAtMs }: Pick<PendingRequest, "requestedAtMs">,
  nowMs: number,
): Estimate {
  const { fromMs, medianMs, toMs } = estimate;
  if (medianMs === Infinity) return estimate;
  const median = sinceLog(medianMs, nowMs);
  const waited = Math.max(median, sinceLog(nowMs, requestedAtMs));
  const middleMs = atOf((median + sinceLog(toMs, nowMs) + waited) / 3, nowMs);
  return {
    ...estimate,
    fromMs: Math.min(fromMs, middleMs),
    medianMs: middleMs,
    toMs: Math.max(toMs, middleMs),
  };
}

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
  const off = scoreOf(each, { nowMs: askedAtMs, startMs });
  return off === undefined ? undefined : { off, ...(isOpen && { isOpen }) };
}

/** The estimate with its interval moved and stretched. An infinite end stays infinite. */
export function stretched<Estimate extends Interval>(
  estimate: Estimate,
  nowMs: number,
  stretch: Stretch = FITTED,
): Estimate {
  const { medianMs, toMs } = estimate;
  if (medianMs === Infinity) return estimate;
  const middle = sinceLog(medianMs, nowMs);
  const at = (off: number): number => (off === 0 ? medianMs : atOf(middle + off, nowMs));
  const movedMs = at(stretch.median);
  return {
    ...estimate,
    fromMs: Math.min(movedMs, at(stretch.from)),
    medianMs: movedMs,
    toMs: toMs === Infinity ? Infinity : Math.max(movedMs, at(stretch.to)),
  };
}

/** How far the true start is from the middle of the estimate, in logarithms of the wait. Absent where the estimate has no middle. */
export function scoreOf(
  { medianMs }: Pick<Interval, "medianMs">,
  { nowMs, startMs }: { readonly nowMs: number; readonly startMs: number },
): number | undefined {
  if (medianMs === Infinity) return undefined;
  return sinceLog(startMs, nowMs) - sinceLog(medianMs, nowMs);
}

/** The stretch within which the next score lies with the probability `coverage`, with half of the rest on either side. */
export function stretchOf(scores: readonly Score[], coverage = COVERAGE): Stretch {
  if (scores.length === 0) return { from: -1, median: 0, to: 1 };
  // At equal distance a start comes before a job that still waits.
  const sorted = [...scores].sort((a, b) =>
    a.off === b.off ? Number(a.isOpen === true) - Number(b.isOpen === true) : a.off - b.off,
  );
  const count = sorted.length;
  let left = 1;
  const places = sorted.flatMap(({ off, isOpen }, at) => {
    if (isOpen === true) return [];
    left *= 1 - 1 / (count - at);
    return [{ off, left }];
  });
  // The next score falls into each of the count + 1 gaps with equal probability.
  const out = (((1 - coverage) / 2) * (count + 1)) / count;
  const below = places.filter((place) => 1 - place.left <= out + EPSILON).at(-1) ?? places[0];
  const above = places.find((place) => place.left <= out - 1 / count + EPSILON);
  const middle = places.find((place) => place.left <= 0.5 + EPSILON);
  // Where too few jobs have started, the largest score stands for the quantile.
  const most = sorted.at(-1)?.off ?? 0;
  const to = above?.off ?? most;
  const median = Math.min(to, middle?.off ?? most);
  return { from: Math.min(median, below?.off ?? 0), median, to };
}

const sinceLog = (atMs: number, nowMs: number): number =>
  Math.log(LEAST_MS + Math.min(LATEST_MS, Math.max(0, atMs - nowMs)));

const atOf = (log: number, nowMs: number): number => nowMs + Math.max(0, Math.exp(log) - LEAST_MS);
