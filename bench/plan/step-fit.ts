/**
 * @file Fits the step-time model (`step-model.ts`) to a few rows of a profile, and says which few rows to measure.
 *
 * Five rows fit more terms than rows, for each term has a prior and what the rows do not show stays near it; the fit is the likeliest (Levenberg), on relative errors. Rows are
 * chosen before any time is looked at: greedily those that leave the least mean variance of the prediction over all placements (I-optimal design at the priors' means).
 * Cost: rows × terms² for each row chosen; some hundred evaluations of five rows for the fit. Ties go to the earlier row.
 */

import {
  constantsOf,
  logStep,
  slopesOf,
  type StepPlace,
  type StepRow,
  type StepScope,
} from "./step-model.ts";

/** Relative error of a measured row. */
const NOISE = 0.05;
const ROUNDS = 200;
const MOST_DAMPING = 1e9;

interface StepFit {
  readonly alphaS: number;
  readonly betaS: number;
  readonly overlap: number;
  readonly predict: (place: StepPlace) => number;
}

/** Indices of the rows that say most about all of them. */
export function rowsToMeasure(
  places: readonly StepPlace[],
  count: number,
  scope: StepScope,
): readonly number[] {
  const { terms } = scope;
  const means = Float64Array.from(terms, ({ mean }) => mean);
  const slopes = places.map((place) => slopesOf(means, place, scope));
  // Σ over all places of slope × slopeᵀ: what a variance of the terms means for the predictions.
  const spread = terms.map(() => new Float64Array(terms.length));
  for (const slope of slopes)
    for (const [at, line] of spread.entries()) addScaled(line, slope, slope[at] ?? 0);
  const covariance = terms.map(({ deviation }, at) => {
    const line = new Float64Array(terms.length);
    line[at] = deviation ** 2;
    return line;
  });
  const chosen: number[] = [];
  while (chosen.length < Math.min(count, places.length)) {
    let best: { readonly row: number; readonly fall: number } | undefined;
    for (const [row, slope] of slopes.entries()) {
      if (chosen.includes(row)) continue;
      const reach = times(covariance, slope);
      // What this row takes away from the variance of all predictions.
      const fall = dot(reach, times(spread, reach)) / (dot(reach, slope) + NOISE ** 2);
      if (best === undefined || fall > best.fall * (1 + 1e-9)) best = { row, fall };
    }
    if (best === undefined) break;
    chosen.push(best.row);
    const slope = slopes[best.row] ?? means;
    const reach = times(covariance, slope);
    const own = dot(reach, slope) + NOISE ** 2;
    for (const [at, line] of covariance.entries()) addScaled(line, reach, -(reach[at] ?? 0) / own);
  }
  return chosen;
}

export function fitSteps(rows: readonly StepRow[], scope: StepScope): StepFit {
  const { terms } = scope;
  const centre = Float64Array.from(terms, ({ mean }) => mean);
  const offOf = (logs: Float64Array): readonly number[] =>
    rows.map((row) => Math.log(row.stepS) - logStep(logs, row, scope));
  // The prior knows nothing of how long this model's steps are.
  centre[0] = offOf(centre).reduce((sum, off) => sum + off, 0) / rows.length;
  const lossOf = (logs: Float64Array): number =>
    offOf(logs).reduce((sum, off) => sum + (off / NOISE) ** 2, 0) +
    terms.reduce(
      (sum, { deviation }, at) => sum + (((logs[at] ?? 0) - (centre[at] ?? 0)) / deviation) ** 2,
      0,
    );
  let logs = centre.slice();
  let loss = lossOf(logs);
  let damping = 1;
  for (let round = 0; round < ROUNDS && damping < MOST_DAMPING; round += 1) {
    const matrix = terms.map(({ deviation }, at) => {
      const line = new Float64Array(terms.length);
      line[at] = 1 / deviation ** 2 + damping;
      return line;
    });
    const right = terms.map(
      ({ deviation }, at) => -((logs[at] ?? 0) - (centre[at] ?? 0)) / deviation ** 2,
    );
    const off = offOf(logs);
    for (const [row, place] of rows.entries()) {
      const slope = slopesOf(logs, place, scope);
      for (const [at, line] of matrix.entries()) {
        const weight = (slope[at] ?? 0) / NOISE ** 2;
        addScaled(line, slope, weight);
        right[at] = (right[at] ?? 0) + weight * (off[row] ?? 0);
      }
    }
    const move = solved(matrix, right);
    const next = logs.map((value, at) => value + (move[at] ?? 0));
    const nextLoss = lossOf(next);
    if (nextLoss < loss) [logs, loss, damping] = [next, nextLoss, damping / 3];
    else damping *= 4;
  }
  return { ...constantsOf(logs), predict: (place) => Math.exp(logStep(logs, place, scope)) };
}

function dot(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let sum = 0;
  for (let at = 0; at < a.length; at += 1) sum += (a[at] ?? 0) * (b[at] ?? 0);
  return sum;
}

const times = (matrix: readonly Float64Array[], vector: Float64Array): Float64Array =>
  Float64Array.from(matrix, (line) => dot(line, vector));

function addScaled(line: Float64Array, added: Float64Array, scale: number): void {
  if (scale === 0) return;
  for (let at = 0; at < line.length; at += 1) line[at] = (line[at] ?? 0) + scale * (added[at] ?? 0);
}

/** Gauss with pivots. */
function solved(matrix: readonly Float64Array[], right: readonly number[]): readonly number[] {
  const size = right.length;
  const rows = matrix.map((line, at) => [...line, right[at] ?? 0]);
  for (let column = 0; column < size; column += 1) {
    let pivot = column;
    for (let row = column; row < size; row += 1)
      if (Math.abs(rows[row]?.[column] ?? 0) > Math.abs(rows[pivot]?.[column] ?? 0)) pivot = row;
    const lead = rows[pivot] ?? [];
    rows[pivot] = rows[column] ?? [];
    rows[column] = lead;
    for (let row = 0; row < size; row += 1) {
      if (row === column) continue;
      const factor = (rows[row]?.[column] ?? 0) / (lead[column] ?? 1);
      rows[row] = (rows[row] ?? []).map((value, at) => value - factor * (lead[at] ?? 0));
    }
  }
  return rows.map((row, at) => (row[size] ?? 0) / (row[at] ?? 1));
}
