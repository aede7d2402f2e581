/**
 * @file What a storm does and when, drawn from its seed: every kind of fault once, then each as often as its weight says.
 *
 * A step names no job and no process: `share` picks among what there is when its time comes. The same seed gives the same steps;
 * what they meet is as the machine has it.
 */

import type { Draw } from "../statistics.ts";

/** How often each kind of fault is drawn once all have been. */
const WEIGHTS = Object.freeze({
  "kill-jobs-worker": 8,
  "kill-fleet-worker": 8,
  "kill-agent": 12,
  "freeze-jobs-worker": 2,
  "freeze-fleet-worker": 2,
  "freeze-agent-briefly": 5,
  "freeze-agent-past-fence": 3,
  "cut-agent-briefly": 8,
  "cut-agent-past-fence": 4,
  "server-killed": 3,
  "server-down-past-silence": 2,
  "terminate-job": 8,
  "terminate-at-grant": 6,
  "reset-job": 6,
  "reset-at-grant": 4,
  "cancel-job": 8,
  "cancel-at-grant": 6,
  "terminate-fleet": 4,
  "junk-to-fleet": 8,
  "junk-to-job": 6,
  "junk-to-presence": 4,
  "oversized-signals": 4,
  "flood-of-output": 3,
  "refusing-host": 4,
  "flood-of-junk": 4,
  "flood-of-constraints": 3,
  "flood-of-large-files": 2,
  "flood-of-arrays": 2,
  upgrade: 2,
  "forged-words": 4,
});
export type FaultKind = keyof typeof WEIGHTS;
export const FAULT_KINDS = Object.keys(WEIGHTS) as readonly FaultKind[];

export interface Step {
  readonly kind: FaultKind;
  /** After the step before. */
  readonly gapMs: number;
  /** Which of the things that it may meet, in [0, 1). */
  readonly share: number;
  /** How long or how much within its kind, in [0, 1). */
  readonly size: number;
}

interface ScheduleSetting {
  readonly faults: number;
  readonly meanGapMs: number;
  readonly kinds?: readonly FaultKind[];
}

export function drawSchedule(
  draw: Draw,
  { faults, meanGapMs, kinds = FAULT_KINDS }: ScheduleSetting,
): readonly Step[] {
  const deck = shuffled(kinds, draw);
  return Array.from({ length: faults }, (_, index) => ({
    kind: deck[index] ?? weighted(kinds, draw),
    // Exponential, so that faults come in clusters too.
    gapMs: Math.round(-Math.log(1 - draw.unit()) * meanGapMs),
    share: draw.unit(),
    size: draw.unit(),
  }));
}

function weighted(kinds: readonly FaultKind[], draw: Draw): FaultKind {
  let left = draw.below(kinds.reduce((sum, kind) => sum + WEIGHTS[kind], 0));
  for (const kind of kinds) {
    if (left < WEIGHTS[kind]) return kind;
    left -= WEIGHTS[kind];
  }
  throw new Error("a storm without any kind of fault");
}

function shuffled<T>(values: readonly T[], draw: Draw): readonly T[] {
  const deck = [...values];
  for (let last = deck.length - 1; last > 0; last -= 1) {
    const other = draw.below(last + 1);
    const [a, b] = [deck[last], deck[other]];
    if (a === undefined || b === undefined) continue;
    deck[last] = b;
    deck[other] = a;
  }
  return deck;
}
