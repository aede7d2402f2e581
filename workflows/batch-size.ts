/**
 * @file How many tasks of an array the next batch of a lease has.
 *
 * Large batches cost the history less, small ones spread the work better and bring failures back sooner. So: two a slot while
 * nobody knows how long a task takes, then about a minute's work a slot, and towards the end half of an even share of what is left
 * (guided self-scheduling), down to a second's work or one task. Whatever the clock says, an array of many tasks has larger
 * batches, so that its history stays below `MAX_BATCHES` batches, six events each. A batch is reported whole: 512 tasks are some
 * 40 KiB. Runs inside the job workflow: a change of behaviour needs a version of the run's recorded rules.
 */

export interface BatchFacts {
  /** Tasks that the lease runs at a time. */
  readonly slots: number;
  /** The same of all leases that the array has now, this one included. */
  readonly allSlots: number;
  /** Tasks that wait to be handed out. */
  readonly waiting: number;
  /** How long a task takes, from those that have ended. */
  readonly meanTaskMs?: number;
  /** Batches that the array has begun. */
  readonly batches: number;
}

/** About 12,000 events: well below what one workflow may have, and what Temporal warns of. */
export const MAX_BATCHES = 2_000;
const MAX_BATCH_TASKS = 512;
const FIRST_PER_SLOT = 2;
const MAX_PER_SLOT = 64;
const AIM_MS = 60_000;
/** A batch costs about a tenth of a second of processor time for itself: a shorter one is not worth it. */
const WORTHWHILE_MS = 1_000;
/** A batch costs six events; of three tasks it costs two a task. */
const FEW_TASKS = 3;

/** From 1 up to `waiting`; 0 when none waits. */
export function batchSize({ slots, allSlots, waiting, meanTaskMs, batches }: BatchFacts): number {
  const perSlot =
    meanTaskMs === undefined
      ? FIRST_PER_SLOT
      : clamp(Math.round(AIM_MS / Math.max(1, meanTaskMs)), FIRST_PER_SLOT, MAX_PER_SLOT);
  const share = (waiting * slots) / Math.max(slots, allSlots);
  const worthwhile =
    meanTaskMs === undefined ? 0 : (slots * WORTHWHILE_MS) / Math.max(1, meanTaskMs);
  const guided = Math.max(Math.ceil(share / 2), Math.min(Math.ceil(share), Math.ceil(worthwhile)));
  const few = Math.min(FEW_TASKS, Math.floor(share));
  const wished = Math.max(Math.min(perSlot * slots, guided), few);
  const needed = Math.ceil(waiting / Math.max(1, MAX_BATCHES - batches));
  return Math.min(waiting, MAX_BATCH_TASKS, Math.max(1, wished, needed));
}

const clamp = (value: number, least: number, most: number): number =>
  Math.min(most, Math.max(least, value));
