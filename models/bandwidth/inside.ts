/**
 * @file The frame of every predictor: the lookup table answers GPUs of one host, the model answers sets over hosts, clamped on request
 * to the slowest member host (one GPU on a host is no limit).
 */

import type {
  BandwidthDomain,
  BandwidthPredictor,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";

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
  const predict = (candidates: readonly Candidate[]): readonly number[] =>
    besideTables(domain, candidates, acrossHosts).map(({ inside, across, isSpread }) => {
      if (!isSpread) return inside;
      const gbs = across ?? NaN;
      return clamp ? Math.min(gbs, inside) : gbs;
    });
  return { version, domain, isClamped: clamp, predict };
}

/** What tables and model say of one candidate. */
interface BesideTables<Answer> {
  /** GB/s of the slowest member host; Infinity where no table limits. */
  readonly inside: number;
  readonly isSpread: boolean;
  /** Of a set over several hosts. */
  readonly across?: Answer;
}

/** Each candidate with its answer; `acrossHosts` is asked once, about those over several hosts. */
export function besideTables<Answer>(
  domain: BandwidthDomain,
  candidates: readonly Candidate[],
  acrossHosts: (candidates: readonly Candidate[]) => readonly (Answer | undefined)[],
): readonly BesideTables<Answer>[] {
  const answers = acrossHosts(candidates.filter(({ length }) => length > 1));
  let next = 0;
  return candidates.map((candidate) => {
    const inside = insideGbs(domain, candidate);
    if (candidate.length < 2) return { inside, isSpread: false };
    const across = answers[next];
    next += 1;
    return { inside, isSpread: true, ...(across !== undefined && { across }) };
  });
}
