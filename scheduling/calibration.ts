/**
 * @file How far an estimate from playing the queue forward is to be trusted: its interval, stretched as starts of the past call for.
 *
 * The plays know the chance in who ends when and who comes; they do not know that the jobs to come may be of another kind than those
 * that were. So their intervals alone are too narrow. The method is split conformal prediction: a score says by how many
 * reaches of its side a true start lay from the median, in the logarithm of the time since the question; the interval goes from the
 * 10th to the 90th of 100 scores. A reach is what the plays say, and `SLACK` more, so that plays that all agree do not claim
 * certainty. When the next start is like those that were scored, it lies in the interval with the wanted chance, whatever the plays are
 * worth. The median stays, and lies within. Cost: O(scores · log scores) to fit, O(1) an interval.
 */

export interface Interval {
  readonly fromMs: number;
  readonly medianMs: number;
  readonly toMs: number;
}

/** In reaches of the interval's side. */
export interface Stretch {
  readonly earlier: number;
  readonly later: number;
}

/** Fitted to questions in the first half of Philly's slice, and judged by those in the second (`bench queue --only estimates`). */
export const FITTED: Stretch = Object.freeze({ earlier: 1.91, later: 1.23 });

/** In logarithms: a quarter more or less. */
const SLACK = 0.25;
/** Times are told apart from here on: below it their ratio says nothing. */
const LEAST_MS = 10_000;

/** The same estimate with its interval stretched; what lies beyond all plays stays there. */
export function stretched<Told extends Interval>(
  told: Told,
  nowMs: number,
  { earlier, later }: Stretch = FITTED,
): Told {
  const { fromMs, medianMs, toMs } = told;
  if (medianMs === Infinity) return told;
  const middle = sinceLog(medianMs, nowMs);
  const back = earlier * reach(middle, sinceLog(fromMs, nowMs));
  if (toMs === Infinity) return { ...told, fromMs: Math.min(medianMs, atOf(middle - back, nowMs)) };
  const on = later * reach(middle, sinceLog(toMs, nowMs));
  return {
    ...told,
    fromMs: Math.min(medianMs, atOf(middle - back, nowMs)),
    toMs: Math.max(medianMs, atOf(middle + on, nowMs)),
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
export function stretchOf(scores: readonly number[], coverage = 0.8): Stretch {
  const sorted = [...scores].sort((a, b) => a - b);
  const out = ((1 - coverage) / 2) * (sorted.length + 1);
  const low = sorted[Math.max(1, Math.floor(out)) - 1] ?? -1;
  const high = sorted[sorted.length - Math.max(1, Math.floor(out))] ?? 1;
  return { earlier: Math.max(0, -low), later: Math.max(0, high) };
}

const reach = (middle: number, side: number): number => Math.abs(side - middle) + SLACK;

const sinceLog = (atMs: number, nowMs: number): number =>
  Math.log(LEAST_MS + Math.max(0, atMs - nowMs));

const atOf = (log: number, nowMs: number): number => nowMs + Math.max(0, Math.exp(log) - LEAST_MS);
