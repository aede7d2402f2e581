/**
 * @file Moves layers between the stages of a split while its played step gets shorter: the bound does not know which sends meet on a link.
 *
 * One layer at a time, from a stage to its neighbour; where none of these helps, from a stage to one further away, so that those between keep as many and
 * begin elsewhere. A stage that is too busy rarely lies beside the one that has time. Cost: one played step for each move that fits memory, of
 * O(stages²) in a round.
 */

import type { Candidate, Search } from "./candidates.ts";
import type { Player } from "./player.ts";
import { isHeldEverywhere, shiftedBy } from "./stage-bounds.ts";
import { range, type LayerSums, type Split } from "./split.ts";

export interface LayerMoves {
  readonly player: Player;
  /** Between stages so far apart at most; absent: any. */
  readonly furthest?: number;
}

export function withMovedLayers(
  start: Candidate,
  { request: { site }, sums }: Search,
  { player: { play, isSpent }, furthest = Infinity }: LayerMoves,
): Candidate {
  const { stages } = start.split;
  let best = start;
  /** Whether moving these borders by so much helps, as often as it does. */
  const hasMoved = (borders: readonly [number, number], by: number): boolean => {
    let isAny = false;
    for (;;) {
      const split = shiftedBy(best.split, borders, by);
      if (split === undefined || !isHeldEverywhere(split, site, sums)) return isAny;
      if (hasNoBlock(split, sums)) return isAny;
      const time = play(split, best.time.totalMs - 1e-9);
      if (time === undefined) return isAny;
      best = { ...best, split, time };
      isAny = true;
    }
  };
  for (let apart = 1; apart < stages && apart <= furthest && !isSpent();) {
    let isAny = false;
    for (let first = 1; first + apart <= stages; first += 1)
      for (const by of [-1, 1]) if (hasMoved([first, first + apart - 1], by)) isAny = true;
    apart = isAny ? 1 : apart + 1;
  }
  return best;
}

/** A first stage of the embedding alone keeps what Megatron-LM's published formulas do not count, so nobody can hold its memory against them. */
export const hasNoBlock = (split: Split, { attentionLayers }: LayerSums): boolean =>
  (attentionLayers.at(-1) ?? 0) > 0 && range(attentionLayers, 0, split.bounds[1] ?? 0) === 0;
