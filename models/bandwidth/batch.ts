/** @file Candidates as the arrays that the graphs read: tokens side by side, padded to the longest candidate. */

import type { Token } from "./features.ts";
import { ABSENT } from "./transformer.ts";

export interface TokenBatch {
  readonly size: number;
  readonly tokens: number;
  /** [size, tokens, features] */
  readonly features: Float32Array;
  /** [size, tokens] */
  readonly logCount: Float32Array;
  /** [size, tokens] */
  readonly share: Float32Array;
}

export function batchOf(
  candidates: readonly (readonly Token[])[],
  featureCount: number,
): TokenBatch {
  const size = candidates.length;
  const tokens = candidates.reduce((most, { length }) => Math.max(most, length), 1);
  const features = new Float32Array(size * tokens * featureCount);
  const logCount = new Float32Array(size * tokens).fill(ABSENT);
  const share = new Float32Array(size * tokens);
  candidates.forEach((candidate, row) => {
    const hosts = candidate.reduce((sum, { count }) => sum + count, 0);
    candidate.forEach((token, place) => {
      const at = row * tokens + place;
      features.set(token.features, at * featureCount);
      logCount[at] = Math.log(token.count);
      share[at] = token.count / hosts;
    });
  });
  return { size, tokens, features, logCount, share };
}
