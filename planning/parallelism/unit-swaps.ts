/** @file Units of a split that change places, two at a time. Cost: that of the pairs that are looked at. */

import type { Candidate } from "./candidates.ts";
import type { Split } from "./split.ts";

/** What the swap comes to where that is better than the best so far, else undefined; `enough` where no more pairs are to be looked at. */
export type LookAtSwap = (split: Split, best: Candidate) => Candidate | undefined | "enough";

/** Units of all pairs of cells on different hosts change places, round after round, until no pair helps any more. */
export function whileSwapsHelp(start: Candidate, look: LookAtSwap): Candidate {
  const count = start.split.cells.length;
  let best = start;
  for (let isAny = true; isAny;) {
    isAny = false;
    for (let a = 0; a < count; a += 1)
      for (let b = a + 1; b < count; b += 1) {
        const split = exchanged(best.split, a, b);
        if (split === undefined) continue;
        const better = look(split, best);
        if (better === "enough") return best;
        if (better === undefined) continue;
        best = better;
        isAny = true;
      }
  }
  return best;
}

/** Undefined where both are on one host. */
function exchanged(split: Split, a: number, b: number): Split | undefined {
  const cells = [...split.cells];
  const [unitA, unitB] = [cells[a], cells[b]];
  if (unitA === undefined || unitB === undefined || unitA.host === unitB.host) return undefined;
  cells[a] = unitB;
  cells[b] = unitA;
  return { ...split, cells };
}
