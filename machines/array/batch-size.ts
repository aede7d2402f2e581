/**
 * @file How many tasks of an array the next batch of a lease has.
 *
 * Large batches cost the history less; small ones spread the work better and report failures sooner. A batch has two tasks a slot until
 * the time of a task is known, then about a minute's work a slot. Towards the end it has half of an even share of the tasks that are left
 * (guided self-scheduling), but at least a second's work or one task; where that is more, an even share of all tasks that have not ended, so
 * that leases which come together divide short tasks in one round. An array of many tasks has larger batches, so that its history stays
 * below `mostBatches` batches of six events each, and below 50 MB: a batch costs some 8 KB, a task some 20 bytes. Replayed: a change of
 * behaviour needs a new version of the job's rules (`JOB_RULES`).
 */

interface BatchFacts {
  /** Tasks that the lease runs at a time. */
  readonly slots: number;
  /** Tasks that all leases of the array run at a time, this one included. */
  readonly allSlots: number;
  /** Tasks that may be handed out now. */
  readonly waiting: number;
  /** The mean of the tasks that have ended. */
  readonly meanTaskMs?: number;
  /** Batches that the array has begun. */
  readonly batches: number;
  /** Of a run that follows `BULK_RULES`. */
  readonly bulk?: {
    /** Tasks of the batches that run. */
    readonly inHand: number;
    /** Tasks of the whole array. */
    readonly count: number;
  };
}

/** About 12,000 events, well below the number at which Temporal warns. */
export const MAX_BATCHES = 2_000;
const MAX_BATCH_TASKS = 512;
/** Of an array that is large by its tasks: their bytes leave room for fewer batches. */
const LARGE_COUNT = 100_000;
const LARGE_MAX_BATCHES = 1_000;
/** Which lets a million tasks be divided, and a few come back. */
const LARGE_BATCH_TASKS = 1_024;
const FIRST_PER_SLOT = 2;
const MAX_PER_SLOT = 64;
const AIM_MS = 60_000;
/** A batch costs about a tenth of a second of processor time, so a shorter one is not worth it. */
const WORTHWHILE_MS = 1_000;
/** A batch costs six events; of three tasks it costs two a task. */
const FEW_TASKS = 3;

/** From 1 up to `waiting`; 0 when none waits. */
export function batchSize({
  slots,
  allSlots,
  waiting,
  meanTaskMs,
  batches,
  bulk,
}: BatchFacts): number {
  const perSlot =
    meanTaskMs === undefined
      ? FIRST_PER_SLOT
      : clamp(Math.round(AIM_MS / Math.max(1, meanTaskMs)), FIRST_PER_SLOT, MAX_PER_SLOT);
  const share = (waiting * slots) / Math.max(slots, allSlots);
  const worthwhile =
    meanTaskMs === undefined ? 0 : (slots * WORTHWHILE_MS) / Math.max(1, meanTaskMs);
  const fair = ((waiting + (bulk?.inHand ?? 0)) * slots) / Math.max(slots, allSlots);
  const guided = Math.max(Math.ceil(share / 2), Math.min(Math.ceil(fair), Math.ceil(worthwhile)));
  const few = Math.min(FEW_TASKS, Math.floor(share));
  const ordered = Math.max(Math.min(perSlot * slots, guided), few);
  const isLarge = bulk !== undefined && bulk.count > LARGE_COUNT;
  const mostBatches = isLarge ? LARGE_MAX_BATCHES : MAX_BATCHES;
  const needed = Math.ceil(waiting / Math.max(1, mostBatches - batches));
  const most = isLarge ? LARGE_BATCH_TASKS : MAX_BATCH_TASKS;
  return Math.min(waiting, most, Math.max(1, ordered, needed));
}

const clamp = (value: number, least: number, most: number): number =>
  Math.min(most, Math.max(least, value));
