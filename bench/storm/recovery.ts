/**
 * @file How long the fleet takes to grant again: from the moment of an event to the first grant that it dates after it.
 *
 * Looks at the ledger ten times a second; the time of a grant is the ledger's own, so looking seldom costs nothing but leases so
 * short that they were over between two looks.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { Site } from "./site.ts";

const LOOK_MS = 100;
const ANSWER_WITHIN_MS = 2_000;

/** Milliseconds from `sinceMs` to the first grant; Infinity when there was none within the limit. */
export async function untilGrant(site: Site, sinceMs: number, limitMs: number): Promise<number> {
  while (Date.now() < sinceMs + limitMs) {
    try {
      const ledger = await site.client.withDeadline(Date.now() + ANSWER_WITHIN_MS, () =>
        site.orbweaver.fleet(),
      );
      const after = [...ledger.leases.values()]
        .map(({ grantedAtMs }) => grantedAtMs - sinceMs)
        .filter((ms) => ms >= 0);
      if (after.length > 0) return Math.min(...after);
    } catch {
      // No answer yet: this is the time that is measured.
    }
    await sleep(LOOK_MS);
  }
  return Infinity;
}
