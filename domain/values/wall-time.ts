/**
 * @file Wall times as text: those of traces, which have no zone and are taken as if they were UTC, and those that people read.
 *
 * Differences are right as long as no clock change lies between; no trace says in which zone it was written.
 */

/** `2031-04-05 06:07:08 UTC`: to the second, rounded down. */
export const timeText = (atMs: number): string =>
  `${new Date(atMs).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** `2017-10-27 00:23:25`, with `T`, a fraction or a `Z`; `undefined` for a time that no calendar has. */
export function wallTimeMs(text: string): number | undefined {
  const match = /^(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(\.\d+)?Z?$/.exec(text);
  if (match === null) return undefined;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = match
    .slice(1, 7)
    .map(Number);
  const ms = Date.UTC(year, month - 1, day, hour, minute, second);
  // Date.UTC carries 31 June over to 1 July; what comes back must be what was written.
  const isReal = new Date(ms).toISOString().slice(0, 19) === text.slice(0, 19).replace(" ", "T");
  return isReal ? ms + Math.round(Number(`0${match[7] ?? ""}`) * 1000) : undefined;
}
