/**
 * @file The nearest measured candidates as surrogate: the cheapest rival. Benches and tests use it.
 *
 * Distance is Euclidean over the vectors of `candidate-vector.ts`, each place divided by its spread over the samples; the answer is the
 * mean logarithm of the three nearest, weighted by the inverse of their distance, so a measured candidate gives its own value. Ties go to
 * the earlier sample. Cost: O(samples) a candidate.
 */

import type { BandwidthPredictor } from "../../domain/bandwidth/bandwidth-port.ts";
import type { RivalRequest } from "./boosted-trees.ts";
import { candidateVectors } from "./candidate-vector.ts";
import { tablesFirst, type PredictorOptions } from "./inside.ts";

const NEIGHBOURS = 3;
/** Keeps the weight of a sample at distance 0 finite, and above all others. */
const CLOSEST = 1e-6;

export function nearestNeighbour(
  { domain, samples }: Omit<RivalRequest, "seed">,
  options: PredictorOptions = {},
): BandwidthPredictor {
  const vectorise = candidateVectors(domain);
  const spread = samples.filter(({ shares }) => shares.length > 1);
  const raw = spread.map(({ shares }) => vectorise(shares));
  const scales = (raw[0] ?? []).map((_, place) => spreadOf(raw.map((row) => row[place] ?? 0)));
  const known = raw.map((row, index) => ({
    row,
    log: Math.log(spread[index]?.gbs ?? NaN),
  }));
  const distance = (a: readonly number[], b: readonly number[]): number =>
    Math.sqrt(
      scales.reduce((sum, scale, place) => {
        const apart = ((a[place] ?? 0) - (b[place] ?? 0)) / scale;
        return sum + apart * apart;
      }, 0),
    );
  const guess = (row: readonly number[]): number => {
    const nearest = known
      .map((one) => ({ log: one.log, apart: distance(row, one.row) }))
      .sort((a, b) => a.apart - b.apart)
      .slice(0, NEIGHBOURS);
    let sum = 0;
    let total = 0;
    for (const { log, apart } of nearest) {
      const weight = 1 / (apart + CLOSEST);
      sum += weight * log;
      total += weight;
    }
    return Math.exp(sum / total);
  };
  const acrossHosts: Parameters<typeof tablesFirst>[1] = (candidates) =>
    candidates.map((candidate) => guess(vectorise(candidate)));
  return tablesFirst(domain, acrossHosts, { version: "nearest-neighbour", ...options });
}

/** Standard deviation; 1 where all are alike, so that they do not matter. */
function spreadOf(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const variance = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  return variance === 0 ? 1 : Math.sqrt(variance);
}
