/**
 * @file What the lookup tables say of a candidate, and the frame that every predictor stands in: GPUs of one host are answered by
 * the table, sets over hosts by the model, clamped if wished to the slowest member host (one GPU on a host is no limit).
 */

import type { BandwidthDomain, BandwidthPredictor, Candidate } from "../domain/bandwidth-port.ts";

export interface PredictorOptions {
  readonly version?: string;
  /** No faster than the slowest member host; true when absent. */
  readonly clamp?: boolean;
}

/** GB/s of the slowest member host; Infinity where no table limits. */
export function insideGbs(domain: BandwidthDomain, candidate: Candidate): number {
  let least = Infinity;
  for (const { host, mask } of candidate) {
    if ((mask & (mask - 1)) === 0) continue;
    least = Math.min(least, domain.intraGbs(host, mask) ?? Infinity);
  }
  return least;
}

/** `acrossHosts` is asked about the candidates over several hosts only. */
export function tablesFirst(
  domain: BandwidthDomain,
  acrossHosts: (candidates: readonly Candidate[]) => readonly number[],
  { version = "unnamed", clamp = true }: PredictorOptions,
): BandwidthPredictor {
  const predict = (candidates: readonly Candidate[]): readonly number[] => {
    const spread = candidates.filter(({ length }) => length > 1);
    const answers = acrossHosts(spread);
    let next = 0;
    return candidates.map((candidate) => {
      const inside = insideGbs(domain, candidate);
      if (candidate.length < 2) return inside;
      const gbs = answers[next] ?? NaN;
      next += 1;
      return clamp ? Math.min(gbs, inside) : gbs;
    });
  };
  return { version, domain, isClamped: clamp, predict };
}
