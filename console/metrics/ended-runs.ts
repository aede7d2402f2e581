/** @file Which notes of ended runs a step of the fleet has added. */

import { isDeepStrictEqual } from "node:util";
import type { RunNote } from "../../scheduling/ledger/ledger.ts";

/**
 * The notes that stand behind those of before, of which old ones may have left. Compared by value: a step of several events is folded once more
 * for the ledgers between them, so its notes are equal, and not the same. Two runs may have equal notes: places count, too. O(notes).
 */
export function endedRuns(
  before: readonly RunNote[] = [],
  after: readonly RunNote[] = [],
): readonly RunNote[] {
  if (after === before) return [];
  let next = 0;
  const firstNew = after.findIndex((note) => {
    const found = before.findIndex((each, at) => at >= next && isSame(each, note));
    next = found + 1;
    return found < 0;
  });
  return firstNew < 0 ? [] : after.slice(firstNew);
}

const isSame = (one: RunNote, other: RunNote): boolean =>
  one === other || isDeepStrictEqual(one, other);
