/**
 * @file Remembers, for one host, the highest token that each GPU has seen and the tokens that were revoked.
 *
 * What was promised is on disk before the promise: `admit` and `revoke` return when the file is written, and calls that
 * come while one write runs share the next. A run is refused when any of its GPUs has seen a higher token, or when its own
 * was revoked. Revoked tokens are forgotten as soon as every GPU has seen a higher one.
 */

import { existsSync } from "node:fs";
import { OrbweaverError } from "../../domain/failure.ts";
import type { Token } from "../../domain/ids.ts";
import { readFile, replaceFileDurably } from "./state-files.ts";

export interface TokenBook {
  /** Why a run under this token may not start on these GPUs; undefined when it may. */
  refusalOf(token: Token, mask: number): string | undefined;
  /** Notes the token for these GPUs, or says why not. */
  admit(token: Token, mask: number): Promise<string | undefined>;
  /** No run under this token may start any more; `mask` names its GPUs where they are known. */
  revoke(token: Token, mask: number): Promise<void>;
  /** The highest token ever seen here; 0 when none was. */
  highest(): number;
}

interface Stored {
  readonly seen: readonly number[];
  readonly revoked: readonly number[];
}

/** Far more than can be in flight to one host; the lowest are forgotten first. */
const MOST_REVOKED = 4_096;

export function openTokenBook(path: string, gpuCount: number): TokenBook {
  const stored = readFile<Stored>(path);
  if (stored === undefined && existsSync(path)) {
    // Going on without it would let a stale run start: a person has to look.
    throw new OrbweaverError(
      "BAD_INPUT",
      `${path} does not hold tokens. See that no process of a job runs on this host, then remove the file.`,
    );
  }
  const seen = Array.from({ length: gpuCount }, (_, gpu) => stored?.seen[gpu] ?? 0);
  let revoked = new Set(stored?.revoked ?? []);

  const write = (): Promise<void> => {
    const lowest = Math.min(...seen);
    revoked = new Set(
      [...revoked]
        .filter((token) => token >= lowest)
        .sort((a, b) => a - b)
        .slice(-MOST_REVOKED),
    );
    const content: Stored = { seen, revoked: [...revoked] };
    return replaceFileDurably(path, content);
  };
  let last: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;
  const saved = (): Promise<void> => {
    next ??= last
      .catch(() => undefined)
      .then(() => {
        next = undefined;
        last = write();
        return last;
      });
    return next;
  };

  const raise = (token: Token, mask: number): void => {
    for (const [gpu, known] of seen.entries()) {
      if ((mask >>> gpu) % 2 === 1) seen[gpu] = Math.max(known, token);
    }
  };
  const refusalOf = (token: Token, mask: number): string | undefined => {
    if (revoked.has(token)) return `token ${token} was revoked by an order to stop`;
    for (const [gpu, known] of seen.entries()) {
      if ((mask >>> gpu) % 2 === 1 && known > token)
        return `GPU ${gpu} has seen token ${known}, which is higher than ${token}`;
    }
    return undefined;
  };
  return {
    refusalOf,
    admit: async (token, mask) => {
      const refusal = refusalOf(token, mask);
      if (refusal !== undefined) return refusal;
      raise(token, mask);
      await saved();
      return refusalOf(token, mask);
    },
    revoke: async (token, mask) => {
      raise(token, mask);
      revoked.add(token);
      await saved();
    },
    highest: () => Math.max(0, ...seen, ...revoked),
  };
}
