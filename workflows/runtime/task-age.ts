/**
 * @file How old a workflow task is by this machine's clock, whether it can still be open, and whether this thread stood still since it began.
 *
 * The server's clock and this one may differ: what counts is the age beyond the least that was ever seen. When everything has been late for
 * half a minute, a clock was set, and the least begins anew. Shared by all runs of a thread, so it has to be a preloaded module (tools/build.mjs).
 */

/** So long before it times out a workflow task counts as too old. */
const MARGIN_MS = 1_000;
/** How late everything must be to tell that a clock was set. */
const LATE_MS = 9_000;
const CLOCK_WAS_SET_MS = 30_000;
/** Longer than a long activation, and so short that what began before it is refused long before it times out. */
const PAUSE_MS = 3_000;
const TICK_MS = 250;

/** The thread's own realm, with the only timers and the only clock that go on by themselves; a workflow's are those of its history. */
const thread = (
  TextEncoder.constructor as (code: string) => () => Pick<typeof globalThis, "Date" | "setInterval">
)("return globalThis")();

export const wallClockMs = (): number => thread.Date.now();

export interface TaskAges {
  /** Whether a task that was started at a time may have timed out after `timeoutMs`, or began before this thread stood still. */
  isTooOld(startedAtMs: number, nowMs: number, timeoutMs: number): boolean;
  /** Tells that the thread runs; a gap between two ticks is a pause. */
  tick(nowMs: number): void;
}

/** One for all runs of a thread. */
export function taskAges(): TaskAges {
  let leastMs = Infinity;
  let lateSinceMs: number | undefined;
  let tickedAtMs: number | undefined;
  let resumedAtMs = -Infinity;
  const tick = (nowMs: number): void => {
    if (tickedAtMs !== undefined && nowMs - tickedAtMs > PAUSE_MS) resumedAtMs = nowMs;
    // A clock that was set back.
    if (resumedAtMs > nowMs) resumedAtMs = -Infinity;
    tickedAtMs = nowMs;
  };
  return {
    tick,
    isTooOld(startedAtMs, nowMs, timeoutMs) {
      tick(nowMs);
      const ageMs = nowMs - startedAtMs;
      if (lateSinceMs !== undefined && nowMs - lateSinceMs > CLOCK_WAS_SET_MS) leastMs = ageMs;
      leastMs = Math.min(leastMs, ageMs);
      const lateMs = ageMs - leastMs;
      lateSinceMs = lateMs > LATE_MS ? (lateSinceMs ?? nowMs) : undefined;
      return lateMs > timeoutMs - MARGIN_MS || lateMs > nowMs - resumedAtMs;
    },
  };
}

export const ages: TaskAges = taskAges();
thread.setInterval(() => ages.tick(wallClockMs()), TICK_MS).unref();
