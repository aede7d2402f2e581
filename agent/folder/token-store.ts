/**
 * @file The fencing tokens of one host: the highest token that each GPU has seen, and the tokens that were revoked.
 *
 * `admit` and `revoke` return when the file is written, so a promise holds after a crash. Calls during one write share the next write.
 * A file that is missing or broken is healed from what the fleet knows; until then nothing is admitted. A run is refused when any of its GPUs has seen a higher token, or when its own was revoked. A revoked token is forgotten as soon as every
 * GPU has seen a higher one.
 */

import type { Token } from "../../domain/values/ids.ts";
import type { Files } from "../ports/files.ts";
import { readJson, replaceJsonDurably } from "./json-files.ts";

export interface TokenStore {
  /** Why a run under this token may not start on these GPUs; undefined when it may. */
  refusalOf(token: Token, mask: number): string | undefined;
  /** Whether it is the newest token of all these GPUs. */
  isNewest(token: Token, mask: number): boolean;
  /** Notes the token for these GPUs, or returns the refusal. */
  admit(token: Token, mask: number): Promise<string | undefined>;
  /** No run under this token may start any more; `mask` names its GPUs where they are known. */
  revoke(token: Token, mask: number): Promise<void>;
  /** Why the file says nothing, until the host is healed. A host that is new has none. */
  readonly lost: "missing" | "broken" | undefined;
  /** Whether tokens may be admitted: never from a broken file, nor while the fleet is being asked about a missing one. */
  isReady(): boolean;
  /** The fleet is being asked which tokens it gave. */
  awaitHeal(): void;
  /** Raises what each GPU has seen, and returns when it is written. */
  heal(seen: readonly number[]): Promise<void>;
  /** The highest token ever seen here; 0 when none was. */
  highest(): number;
}

interface Stored {
  readonly seen: readonly number[];
  readonly revoked: readonly number[];
}

/** Far more than can be in flight to one host; the lowest are forgotten first. */
const MOST_REVOKED = 4_096;

export function openTokenStore(files: Files, path: string, gpuCount: number): TokenStore {
  const stored = readStored(files, path);
  const isThere = files.stat(path) !== undefined;
  const lost = stored !== undefined ? undefined : isThere ? "broken" : "missing";
  // From a broken file a stale run could start.
  let isReady = lost !== "broken";
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
    return replaceJsonDurably(files, path, content);
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
    isNewest: (token, mask) =>
      seen.every((known, gpu) => (mask >>> gpu) % 2 === 0 || known === token),
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
    lost,
    isReady: () => isReady,
    awaitHeal: () => {
      isReady = false;
    },
    heal: async (given) => {
      for (const [gpu, known] of seen.entries()) seen[gpu] = Math.max(known, given[gpu] ?? 0);
      await saved();
      isReady = true;
    },
    highest: () => Math.max(0, ...seen, ...revoked),
  };
}

/** Undefined for a file that is missing, cut short or of another shape. */
function readStored(files: Files, path: string): Stored | undefined {
  const stored = readJson<Partial<Stored> | null>(files, path);
  const isNumbers = (list: unknown): boolean =>
    Array.isArray(list) && list.every((each) => Number.isSafeInteger(each));
  if (!isNumbers(stored?.seen) || !isNumbers(stored?.revoked)) return undefined;
  return { seen: stored?.seen ?? [], revoked: stored?.revoked ?? [] };
}
