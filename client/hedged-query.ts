/**
 * @file Hedged query: sent again if no answer arrives in time; the first answer wins.
 *
 * A query is not part of any history. When the poll that took it breaks, or its run leaves the worker's cache at that moment,
 * the server keeps it without an answer until its deadline. A refusal counts as an answer.
 */

import { setTimeout as sleep } from "node:timers/promises";

/** Settles as the first of `query` now and, while none has settled, again after each of `afterMs`. */
export async function hedgedQuery<T>(
  query: () => Promise<T>,
  afterMs: readonly number[],
): Promise<T> {
  const over = new AbortController();
  const later = afterMs.map(async (ms) => {
    await sleep(ms, undefined, { signal: over.signal });
    return await query();
  });
  try {
    return await Promise.race([query(), ...later]);
  } finally {
    over.abort();
  }
}
