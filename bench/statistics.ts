/** @file Statistics of repeated measurements, and random numbers that a seed repeats. */

import { quantile } from "../lib/quantile.ts";

export { quantile };

export const mean = (values: readonly number[]): number =>
  values.reduce((sum, value) => sum + value, 0) / values.length;

export interface Spread {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly min: number;
  readonly max: number;
}

export const spreadOf = (values: readonly number[]): Spread => ({
  count: values.length,
  p50: quantile(values, 0.5),
  p99: quantile(values, 0.99),
  min: quantile(values, 0),
  max: quantile(values, 1),
});

export interface Draw {
  /** In [0, 1). */
  readonly unit: () => number;
  /** A whole number from 0 to `count` − 1. */
  readonly below: (count: number) => number;
  readonly of: <T>(values: readonly [T, ...T[]]) => T;
}

/** mulberry32: small, fast, and good enough to draw workloads. */
export function drawFrom(seed: number): Draw {
  let state = seed >>> 0;
  const unit = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (count: number): number => Math.floor(unit() * count);
  return { unit, below, of: (values) => values[below(values.length)] ?? values[0] };
}
