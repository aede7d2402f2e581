/**
 * @file What a pick may rely on: the model's answer over several hosts, limited by the slowest member host, and less where nothing similar was measured.
 */

import type {
  Appraised,
  BandwidthDomain,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";
import { besideTables } from "./inside.ts";

/** A model's answer for a set over several hosts. */
export interface SeenBandwidth {
  /** GB/s, not clamped. */
  readonly gbs: number;
  /** What of its logarithm is due to measurements of such sets alone. */
  readonly exception: number;
  /** 0 to 1: 1 where nothing like it was measured. */
  readonly unseen: number;
}

/**
 * What a pick counts less where nothing like a candidate was measured, as a share. The Transformer says what most sets read; on the
 * paper's measured cluster one set in twenty reads a third less than all similar sets, and only a measurement shows which.
 */
const UNSEEN_LESS = 0.02;

interface Appraising {
  /** No faster than the slowest member host. */
  readonly clamp: boolean;
  /** Asked once, about the candidates over several hosts. */
  readonly answersFor: (candidates: readonly Candidate[]) => readonly (SeenBandwidth | undefined)[];
}

export function appraised(
  domain: BandwidthDomain,
  candidates: readonly Candidate[],
  { clamp, answersFor }: Appraising,
): readonly Appraised[] {
  return besideTables(domain, candidates, answersFor).map(({ inside, isSpread, across }) => {
    if (!isSpread) return { predictedGbs: inside, countedGbs: inside };
    const { gbs = NaN, unseen = 1 } = across ?? {};
    const most = clamp ? inside : Infinity;
    return {
      predictedGbs: Math.min(gbs, most),
      countedGbs: Math.min(gbs * (1 - UNSEEN_LESS * unseen), most),
    };
  });
}
