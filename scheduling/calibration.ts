/**
 * @file How far an estimate from playing the queue forward is to be trusted: its interval, moved and stretched as starts of the past
 * call for.
 *
 * The plays know the chance in who ends when and who comes; they do not know that the jobs to come may be of another kind than those
 * that were. So their intervals alone are too narrow, and off to one side for as long as the workload is. The method is conformal
 * prediction: a score says by how many reaches of its side a true start lay from the median, in the logarithm of the time since the
 * question; the interval goes from the 10th to the 90th of 100 scores, and its median lies at theirs. A reach is what the plays say, and
 * `SLACK` more: what the plays agree on says little of how far off they are. When the next start is like those that were scored, it
 * lies in the interval with the wanted chance, whatever the plays are worth.
 * The scores are of the fleet's own last estimates (foreseen.ts), so they follow the workload. One whose job still waits counts as later
 * than now, by the product-limit estimate (Kaplan and Meier): left out, it would take all the long waits along. While there are few, the
 * stretch of a trace stands in for `PRIOR_SCORES` of them. Cost: O(scores · log scores) a stretch, O(1) an interval.
 */

import type { Foreseen, Interval } from "./foreseen.ts";

/** Where the told interval lies, in reaches from the median of the plays: before it below 0, after it above. Ascending. */
export interface Stretch {
  readonly from: number;
  readonly median: number;
  readonly to: number;
}

export interface Score {
  readonly reaches: number;
  /** Of a job that waits: its start lies here or later. */
  readonly isOpen?: boolean;
}

/** What the first half of Philly's slice calls for (`bench queue --only estimates`). */
export const FITTED: Stretch = Object.freeze({ from: -1.2, median: -0.25, to: 0.35 });
const PRIOR_SCORES = 8;
const COVERAGE = 0.8;

/** In logarithms: seven times as long, or a seventh. */
const SLACK = 2;
/** Times are told apart from here on: below it their ratio says nothing. */
const LEAST_MS = 10_000;
const EPSILON = 1e-9;

/** What this fleet's own estimates of the past call for now. */
export function learnedStretch(foreseen: readonly Foreseen[], nowMs: number): Stretch {
  const scores = foreseen.flatMap((each) => scoreNow(each, nowMs) ?? []);
  const called = stretchOf(scores);
  const mixed = (own: number, fitted: number): number =>
    (scores.length * own + PRIOR_SCORES * fitted) / (scores.length + PRIOR_SCORES);
  return {
    from: mixed(called.from, FITTED.from),
    median: mixed(called.median, FITTED.median),
    to: mixed(called.to, FITTED.to),
  };
}

function scoreNow(each: Foreseen, nowMs: number): Score | undefined {
  const { askedAtMs, outcome } = each;
  const isOpen = outcome.kind === "waits";
  const startMs = isOpen ? nowMs : outcome.atMs;
  const reaches = scoreOf(each, { nowMs: askedAtMs, startMs });
  return reaches === undefined ? undefined : { reaches, ...(isOpen && { isOpen }) };
}

/** The same estimate with its interval moved and stretched; what lies beyond all plays stays there. */
export function stretched<Told extends Interval>(
  told: Told,
  nowMs: number,
  stretch: Stretch = FITTED,
): Told {
  const { fromMs, medianMs, toMs } = told;
  if (medianMs === Infinity) return told;
  const middle = sinceLog(medianMs, nowMs);
  const at = (reaches: number): number => {
    if (reaches === 0 || (reaches > 0 && toMs === Infinity)) return medianMs;
    const side = sinceLog(reaches < 0 ? fromMs : toMs, nowMs);
    const found = atOf(middle + reaches * reach(middle, side), nowMs);
    return reaches < 0 ? Math.min(medianMs, found) : Math.max(medianMs, found);
  };
  return {
    ...told,
    fromMs: at(stretch.from),
    medianMs: at(stretch.median),
    toMs: toMs === Infinity ? Infinity : at(stretch.to),
  };
}

/** Where a true start lay, as the plays alone saw it: −1 and 1 are a reach before and after the median. Absent where they saw none. */
export function scoreOf(
  { fromMs, medianMs, toMs }: Interval,
  { nowMs, startMs }: { readonly nowMs: number; readonly startMs: number },
): number | undefined {
  if (medianMs === Infinity) return undefined;
  const middle = sinceLog(medianMs, nowMs);
  const off = sinceLog(startMs, nowMs) - middle;
  const side = sinceLog(off < 0 ? fromMs : toMs, nowMs);
  return side === Infinity ? 0 : off / reach(middle, side);
}

/** What these scores call for, so that the next one lies within with this chance, half of the rest on either side. */
export function stretchOf(scores: readonly Score[], coverage = COVERAGE): Stretch {
  if (scores.length === 0) return { from: -1, median: 0, to: 1 };
  // Of those at one place, starts come before what is known to be later.
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
  // A next score falls into any of the count + 1 gaps alike.
  const out = (((1 - coverage) / 2) * (count + 1)) / count;
  const below = places.filter((place) => 1 - place.left <= out + EPSILON).at(-1) ?? places[0];
  const above = places.find((place) => place.left <= out - 1 / count + EPSILON);
  const middle = places.find((place) => place.left <= 0.5 + EPSILON);
  // Where too few have started to say, the longest that was seen stands for it.
  const most = sorted.at(-1)?.reaches ?? 0;
  const to = above?.reaches ?? most;
  const median = Math.min(to, middle?.reaches ?? most);
  return { from: Math.min(median, below?.reaches ?? 0), median, to };
}

const reach = (middle: number, side: number): number => Math.abs(side - middle) + SLACK;

const sinceLog = (atMs: number, nowMs: number): number =>
  Math.log(LEAST_MS + Math.max(0, atMs - nowMs));

const atOf = (log: number, nowMs: number): number => nowMs + Math.max(0, Math.exp(log) - LEAST_MS);
