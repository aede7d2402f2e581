/**
 * @file The one scheduler of a world: events by virtual time, random delays from the seed, and the story of what happened.
 *
 * An event is one delivery, completion, due timer or fault. Ties of time go by the order of entry. Cost: O(log n) an event.
 */

import { eventQueue } from "../../lib/event-queue.ts";
import { randomFrom, type Random } from "../../lib/random.ts";

/** One line of the story: who did what to whom. */
export interface StoryLine {
  readonly atMs: number;
  readonly from: string;
  readonly to: string;
  readonly what: string;
}

export interface Kernel {
  /** Since the world began. */
  readonly nowMs: () => number;
  /** Events that were played. */
  readonly events: () => number;
  /** Of delays alone. */
  readonly random: Random;
  readonly after: (delayMs: number, run: () => void) => void;
  /** Plays the next event; false when there is none before that time. */
  readonly playNext: (untilMs: number) => boolean;
  /** The text is made only for a world that is told. */
  readonly tell: (from: string, to: string, what: () => string) => void;
  readonly story: readonly StoryLine[];
}

export function createKernel(seed: number, isTold: boolean): Kernel {
  const queue = eventQueue<() => void>();
  const story: StoryLine[] = [];
  let nowMs = 0;
  let events = 0;
  return {
    nowMs: () => nowMs,
    events: () => events,
    random: randomFrom(seed, "delays"),
    after: (delayMs, run) => queue.put(nowMs + Math.max(0, delayMs), 0, run),
    playNext: (untilMs) => {
      if (queue.nextAtMs() > untilMs) return false;
      const next = queue.take();
      if (next === undefined) return false;
      nowMs = next.atMs;
      events += 1;
      next.what();
      return true;
    },
    tell: (from, to, what) => {
      if (isTold) story.push({ atMs: nowMs, from, to, what: what() });
    },
    story,
  };
}
