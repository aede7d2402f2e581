/** @file Plays steps of splits that could be shorter than the best, while the work lasts. */

import type { Search } from "./candidates.ts";
import type { Split } from "./split.ts";
import { stepFloorMs } from "./step-floor.ts";
import { playedStep, type StepTime } from "./step-time.ts";

/** What a moment costs beside its units, in units. */
const MOMENT = 16;

export interface Player {
  /** Undefined where the step is not shorter, or nothing is left to play it. */
  readonly play: (split: Split, thanMs: number) => StepTime | undefined;
  readonly isSpent: () => boolean;
}

/** `work`: moments × units (each moment some more) of all that is played, and one step more. */
export function playerOf({ request: { site, onCandidate }, sums }: Search, work: number): Player {
  const setting = { site, sums };
  let left = work;
  return {
    play: (split, thanMs) => {
      if (left <= 0 || stepFloorMs(split, setting) >= thanMs) return undefined;
      const time = playedStep(split, setting);
      left -= time.moments * (split.cells.length + MOMENT);
      onCandidate?.(split, time);
      return time.totalMs < thanMs ? time : undefined;
    },
    isSpent: () => left <= 0,
  };
}
