/**
 * @file Layers moved at random and then by what helps (iterated local search, Lourenço, Martin and Stützle 2003), while the work lasts: where several stages are equally slow, or sends meet in a
 * few moments, no single move of a layer makes a played step shorter though two or three do.
 *
 * Cost: a floor for each try, played steps within the player's work.
 */

import type { Random } from "../../lib/random.ts";
import type { Candidate, Search } from "./candidates.ts";
import { hasNoBlock, withMovedLayers } from "./moved-layers.ts";
import type { Player } from "./player.ts";
import type { Split } from "./split.ts";
import { isHeldEverywhere, shiftedBy } from "./stage-bounds.ts";

const KICKS = 400;
/** Layers of one kick, each from any stage to any other. */
const MOST_MOVED = 3;
/** Of the best step: what a kick alone may take, before layers move between neighbours. */
const MOST_LONGER = 1.03;

export function withKickedLayers(
  start: Candidate,
  search: Search,
  { player, random }: { readonly player: Player; readonly random: Random },
): Candidate {
  if (start.split.runs !== undefined || start.split.stages < 3) return start;
  let best = start;
  for (let kick = 0; kick < KICKS && !player.isSpent(); kick += 1) {
    const split = kicked(best.split, random);
    if (split === undefined || !isHeldEverywhere(split, search.request.site, search.sums)) continue;
    if (hasNoBlock(split, search.sums)) continue;
    const time = player.play(split, MOST_LONGER * best.time.totalMs);
    if (time === undefined) continue;
    const next = withMovedLayers({ ...best, split, time }, search, { player, furthest: 1 });
    if (next.time.totalMs < best.time.totalMs - 1e-9) best = next;
  }
  return best;
}

function kicked(start: Split, random: Random): Split | undefined {
  let split: Split | undefined = start;
  for (let left = 1 + random.below(MOST_MOVED); left > 0 && split !== undefined; left -= 1) {
    const [a, b] = [random.below(start.stages), random.below(start.stages)];
    if (a === b) continue;
    // From a stage to one behind it, the borders between come a layer earlier.
    split = shiftedBy(split, [Math.min(a, b) + 1, Math.max(a, b)], a < b ? -1 : 1);
  }
  return split === start ? undefined : split;
}
