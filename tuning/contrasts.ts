/**
 * @file How much slower each arm is than another, and with which error, from the iterations of a job in order.
 *
 * Model: log ms = arm + moment + noise. Iterations close in time share what slows them all (a job settles, a neighbour comes and goes), so every
 * `MOMENT` iterations in a row are one moment; its effect is random with standard deviation `MOMENT_SIGMA`, and arms are compared inside moments
 * far more than across them (generalised least squares, solved exactly: as many unknowns as arms). What disturbs an iteration only makes it longer:
 * residuals above `CLIP_SIGMAS` count as that much, so a stall speaks against its arm, and is no verdict. The standard deviation is pooled over
 * arms and shrunk to the usual one of collectives, because few samples cannot estimate it. Cost: O(n + arms³), `ROUNDS` times.
 * Source: Henderson 1975 (random effects); Huber 1964 (clipped residuals).
 */

import type { Arm } from "../domain/bandwidth/collective-arm.ts";
import type { Level } from "./run-effects.ts";
import { ascending } from "./trimming.ts";

const MOMENT = 12;
const MOMENT_SIGMA = 0.1;
const CLIP_SIGMAS = 3;
const ROUNDS = 4;
/** Standard deviation of log time that an iteration usually has, and how many samples that belief is worth. */
const USUAL_SIGMA = 0.05;
const USUAL_WORTH = 6;

export interface Contrasts {
  /** Those that were tried, in the order of their first samples. */
  readonly arms: readonly Arm[];
  /** 0 for an arm that was never tried. */
  readonly count: (arm: Arm) => number;
  /** Of log time; +∞ for an arm that was never tried. */
  readonly level: (arm: Arm) => number;
  /** Standard error of the difference of two levels; +∞ where one is unknown. */
  readonly error: (one: Arm, other: Arm) => number;
}

export function contrastsOf(levels: readonly Level[]): Contrasts {
  const arms = [...new Set(levels.map(({ arm }) => arm))];
  const at = new Map(arms.map((arm, index) => [arm, index]));
  const rows = levels.map(({ arm, logMs }, index) => ({
    arm: at.get(arm) ?? 0,
    moment: Math.floor(index / MOMENT),
    logMs,
  }));
  const counts = arms.map((_, arm) => rows.filter((row) => row.arm === arm).length);
  const centre = rows.length === 0 ? 0 : Math.min(...rows.map(({ logMs }) => logMs));
  // Medians first: of two samples the lower one, because one may be a stall.
  let fit: Fit = {
    arms: arms.map((_, arm) => lowMedian(rows, arm) - centre),
    moments: [],
    covariance: [],
  };
  let sigma = USUAL_SIGMA;
  for (let round = 0; round < ROUNDS; round += 1) {
    const clipped = rows.map((row) => {
      const expected = (fit.arms[row.arm] ?? 0) + (fit.moments[row.moment] ?? 0);
      const rest = row.logMs - centre - expected;
      return { ...row, logMs: expected + clip(rest, CLIP_SIGMAS * sigma) };
    });
    fit = fitted(clipped, arms.length, (sigma / MOMENT_SIGMA) ** 2);
    sigma = sigmaOf(clipped, fit);
  }
  const { covariance, arms: found } = fit;
  const of = (arm: Arm): number | undefined => at.get(arm);
  return {
    arms,
    count: (arm) => counts[of(arm) ?? -1] ?? 0,
    level: (arm) => found[of(arm) ?? -1] ?? Infinity,
    error: (one, other) => {
      const [i, j] = [of(one), of(other)];
      if (i === undefined || j === undefined) return Infinity;
      const cell = (a: number, b: number): number => covariance[a]?.[b] ?? 0;
      return sigma * Math.sqrt(Math.max(0, cell(i, i) + cell(j, j) - 2 * cell(i, j)));
    },
  };
}

interface Row {
  readonly arm: number;
  readonly moment: number;
  readonly logMs: number;
}

interface Fit {
  readonly arms: readonly number[];
  readonly moments: readonly number[];
  /** Of the arms, in units of the noise's variance. */
  readonly covariance: readonly (readonly number[])[];
}

const clip = (value: number, most: number): number => Math.max(-most, Math.min(most, value));

function lowMedian(rows: readonly Row[], arm: number): number {
  const own = ascending(rows.filter((row) => row.arm === arm).map(({ logMs }) => logMs));
  return own[(own.length - 1) >> 1] ?? 0;
}

/** The effects of moments are eliminated: Σ over moments of diag(n) − n nᵀ / (N + `ratio`), n being the counts of the arms in it and N their sum. */
function fitted(rows: readonly Row[], arms: number, ratio: number): Fit {
  const moments = 1 + (rows.at(-1)?.moment ?? -1);
  const count = Array.from({ length: moments }, () => new Array<number>(arms).fill(0));
  const total = new Array<number>(moments).fill(0);
  const right = new Array<number>(arms).fill(0);
  for (const { arm, moment, logMs } of rows) {
    const own = count[moment] ?? [];
    own[arm] = (own[arm] ?? 0) + 1;
    total[moment] = (total[moment] ?? 0) + logMs;
    right[arm] = (right[arm] ?? 0) + logMs;
  }
  const matrix = Array.from({ length: arms }, () => new Array<number>(arms).fill(0));
  for (const [moment, own] of count.entries()) {
    const size = own.reduce((sum, each) => sum + each, 0) + ratio;
    for (let i = 0; i < arms; i += 1) {
      const ni = own[i] ?? 0;
      if (ni === 0) continue;
      right[i] = (right[i] ?? 0) - (ni * (total[moment] ?? 0)) / size;
      const line = matrix[i] ?? [];
      line[i] = (line[i] ?? 0) + ni;
      for (let j = 0; j < arms; j += 1) line[j] = (line[j] ?? 0) - (ni * (own[j] ?? 0)) / size;
    }
  }
  const covariance = inverse(matrix);
  const found = covariance.map((line) =>
    line.reduce((sum, each, j) => sum + each * (right[j] ?? 0), 0),
  );
  const effects = count.map((own, moment) => {
    const size = own.reduce((sum, each) => sum + each, 0) + ratio;
    const expected = own.reduce((sum, each, arm) => sum + each * (found[arm] ?? 0), 0);
    return ((total[moment] ?? 0) - expected) / size;
  });
  return { arms: found, moments: effects, covariance };
}

/** Of a symmetric positive definite matrix, by Gauss and Jordan without pivots. */
function inverse(matrix: readonly (readonly number[])[]): number[][] {
  const size = matrix.length;
  const work = matrix.map((line, i) => [
    ...line,
    ...Array.from({ length: size }, (_, j) => (i === j ? 1 : 0)),
  ]);
  for (const [i, line] of work.entries()) {
    const pivot = line[i] ?? 1;
    for (let j = 0; j < 2 * size; j += 1) line[j] = (line[j] ?? 0) / pivot;
    for (const [k, other] of work.entries()) {
      const factor = other[i] ?? 0;
      if (k === i || factor === 0) continue;
      for (let j = 0; j < 2 * size; j += 1) other[j] = (other[j] ?? 0) - factor * (line[j] ?? 0);
    }
  }
  return work.map((line) => line.slice(size));
}

function sigmaOf(rows: readonly Row[], { arms, moments }: Fit): number {
  const squares = rows.reduce((sum, { arm, moment, logMs }) => {
    return sum + (logMs - (arms[arm] ?? 0) - (moments[moment] ?? 0)) ** 2;
  }, 0);
  const freedom = Math.max(0, rows.length - arms.length - moments.length + 1);
  return Math.sqrt((squares + USUAL_WORTH * USUAL_SIGMA ** 2) / (freedom + USUAL_WORTH));
}
