/**
 * @file Calibrates the interval of a start forecast: moves and stretches it by the errors of the fleet's earlier forecasts.
 *
 * The plays contain the randomness of run times and arrivals. They do not know that future jobs may differ from past ones, so their
 * intervals are too narrow, and biased for as long as the workload is. Nor do they know what a job's own wait has shown of it: one that
 * has waited for long waits for long. So the middle of an estimate is the mean of all plays' starts and, with a weight of a third, of the
 * time waited so far, which counts as the plays' mean while it is shorter (`withWait`); all in logarithms of the time since the question.
 * The method is conformal prediction: a score is the distance of a true start from that middle, the interval reaches from the 10th to the
 * 90th percentile of the scores, and its median is their median. If the next start resembles the scored ones, it lies in the interval with
 * the wanted probability, however good or bad the plays are.
 * The scores come from the fleet's own last estimates (start-estimates.ts), so they follow the workload; of these those `NEIGHBOURS` count
 * whose middles were nearest to this one, because short waits err otherwise than long ones. Where long estimates came out too long and short
 * ones too short, the scores are first moved along the line that says so (`pullOf`): estimates that say little of a single job are drawn to
 * the mean. A job that still waits counts as later than now, by the product-limit estimate (Kaplan and Meier); without it the long waits
 * would be missing. The stretch of traces stands for some scores more: the estimates of one time err together, and a tenth of few scores is
 * left to chance. Cost: O(scores · log scores) a stretch, O(1) an interval.
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

/** About as far as the starts of other traces lay from such middles (docs/decisions/0225). */
export const FITTED: Stretch = Object.freeze({ from: -1.5, median: 0, to: 1.5 });
/** How many scores the stretch of traces stands for: in the median, and in the reach on either side of it, which takes more scores to see. */
const PRIOR_MEDIANS = 8;
const PRIOR_REACHES = 32;
/** Of the middle of an estimate, the part of the wait so far. */
const WAIT_SHARE = 1 / 3;
/** The line through scores is drawn as if so many more, whose middles lie one from the mean, showed none. */
const FLAT_SCORES = 32;
/** Enough to bear a tenth on either side, although estimates of one time err together. */
const NEIGHBOURS = 64;
const COVERAGE = 0.8;

/** Added to every time: below it the ratio of two times says nothing. */
const LEAST_MS = 10_000;
/** The horizon of plays: one that saw no start is taken to have seen it there. */
const LATEST_MS = 30 * 86_400_000;
const EPSILON = 1e-9;

/** Of plays, with the mean of their starts (`meanStart`). */
export interface PlayedInterval extends Interval {
  readonly meanMs: number;
}

/** The mean of the starts of plays in logarithms; one that saw no start is taken to have seen it at its horizon. `startsMs` is not empty. */
export const meanStart = (startsMs: readonly number[], nowMs: number): number =>
  atOf(meanOf(startsMs.map((startMs) => sinceLog(startMs, nowMs))), nowMs);

/** The estimate with the wait so far in its middle, as fleets keep it and as it is scored. Without a median it stays as it is. */
export function withWait<Estimate extends PlayedInterval>(
  { meanMs, ...estimate }: Estimate,
  { requestedAtMs }: Pick<PendingRequest, "requestedAtMs">,
  nowMs: number,
): Omit<Estimate, "meanMs"> {
  const { fromMs, medianMs, toMs } = estimate;
  if (medianMs === Infinity) return estimate;
  const mean = sinceLog(meanMs, nowMs);
  const waited = Math.max(mean, sinceLog(nowMs, requestedAtMs));
  const middleMs = atOf(mean + WAIT_SHARE * (waited - mean), nowMs);
  return {
    ...estimate,
    fromMs: Math.min(fromMs, middleMs),
    medianMs: middleMs,
    toMs: Math.max(toMs, middleMs),
  };
}

/** The stretch that this fleet's own past estimates give an estimate with this middle now. */
export function learnedStretch(
  ownEstimates: readonly KeptEstimate[],
  { medianMs }: Pick<Interval, "medianMs">,
  nowMs: number,
): Stretch {
  const middle = sinceLog(medianMs, nowMs);
  const near = ownEstimates
    .flatMap((each) => scoreNow(each, nowMs) ?? [])
    .sort((a, b) => Math.abs(a.middle - middle) - Math.abs(b.middle - middle))
    .slice(0, NEIGHBOURS);
  const pull = pullOf(near);
  const called = stretchOf(
    near.map(({ off, middle: its, isOpen }) => ({ off: off + pull * (middle - its), isOpen })),
  );
  const mixed = (own: number, fitted: number, prior: number): number =>
    (near.length * own + prior * fitted) / (near.length + prior);
  const median = mixed(called.median, FITTED.median, PRIOR_MEDIANS);
  return {
    from: median - mixed(called.median - called.from, FITTED.median - FITTED.from, PRIOR_REACHES),
    median,
    to: median + mixed(called.to - called.median, FITTED.to - FITTED.median, PRIOR_REACHES),
  };
}

/** A score with the middle of its estimate, in logarithms. */
interface PlacedScore extends Score {
  readonly isOpen: boolean;
  readonly middle: number;
}

/**
 * By how much scores change while their middles rise by one: the slope of least squares, shrunk towards none. Between −1, where the middle
 * says nothing of the start, and 0: middles that lie too near to each other are left as they are.
 */
function pullOf(scores: readonly PlacedScore[]): number {
  const meanMiddle = meanOf(scores.map(({ middle }) => middle));
  const meanOff = meanOf(scores.map(({ off }) => off));
  let both = 0;
  let own = FLAT_SCORES;
  for (const { middle, off } of scores) {
    both += (middle - meanMiddle) * (off - meanOff);
    own += (middle - meanMiddle) ** 2;
  }
  return Math.max(-1, Math.min(0, both / own));
}

function scoreNow(each: KeptEstimate, nowMs: number): PlacedScore | undefined {
  const { askedAtMs, outcome } = each;
  const isOpen = outcome.kind === "waits";
  const startMs = isOpen ? nowMs : outcome.atMs;
  const off = scoreOf(each, { nowMs: askedAtMs, startMs });
  if (off === undefined) return undefined;
  return { off, isOpen, middle: sinceLog(each.medianMs, askedAtMs) };
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

const meanOf = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);

const atOf = (log: number, nowMs: number): number => nowMs + Math.max(0, Math.exp(log) - LEAST_MS);
