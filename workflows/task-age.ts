/**
 * @file How old a workflow task is by this machine's clock, and whether it can still be open.
 *
 * The server's clock and this one may differ: what counts is the age beyond the least that was ever seen. When everything has been late for
 * half a minute, a clock was set, and the least begins anew. Shared by all runs of a thread, so it has to be a preloaded module (tools/build.mjs).
 */

/** A workflow task that is older than ten seconds has timed out. */
const LATE_MS = 9_000;
const CLOCK_WAS_SET_MS = 30_000;

/** The only clock of the sandbox that is not the workflow's own. */
const CLOCK = new Intl.DateTimeFormat("en-US", {
  timeZone: "UTC",
  hourCycle: "h23",
  year: "numeric",
  month: "numeric",
  day: "numeric",
  hour: "numeric",
  minute: "numeric",
  second: "numeric",
  fractionalSecondDigits: 3,
});

export function wallClockMs(): number {
  const parts = (CLOCK.format().match(/\d+/g) ?? []).map(Number);
  const [month = 1, day = 1, year = 1970, hour = 0, minute = 0, second = 0, ms = 0] = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second, ms);
}

/** Whether a task that was started at a time is too old; one for all runs of a process. */
export function taskAges(): (startedAtMs: number, nowMs: number) => boolean {
  let leastMs = Infinity;
  let lateSinceMs: number | undefined;
  return (startedAtMs, nowMs) => {
    const ageMs = nowMs - startedAtMs;
    if (lateSinceMs !== undefined && nowMs - lateSinceMs > CLOCK_WAS_SET_MS) leastMs = ageMs;
    leastMs = Math.min(leastMs, ageMs);
    const isLate = ageMs - leastMs > LATE_MS;
    lateSinceMs = isLate ? (lateSinceMs ?? nowMs) : undefined;
    return isLate;
  };
}

export const isTooOld = taskAges();
