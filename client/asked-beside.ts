/**
 * @file A question that may be lost on its way, asked beside itself once more while nobody answers.
 *
 * A query is in no history: when the poll that took it breaks, or its run leaves the worker's cache in that moment, nobody
 * answers it, and the server keeps it until its deadline. The first answer counts, and a refusal is an answer.
 */

import { setTimeout as sleep } from "node:timers/promises";

/** The first settled of `query` now and, while nothing is settled, again `afterMs` later each. */
export async function askedBeside<T>(
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
