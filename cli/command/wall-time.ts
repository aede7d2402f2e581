/** @file A time as operators write it: `22:00` (the next one, of this machine's clock), `2026-03-01T22:00`, with or without a zone, or `+2h`. */

import { parseDuration } from "../../domain/values/dimensions.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";

/** Throws BAD_INPUT for what is no time, and for one that has passed. */
export function wallTime(flag: string, text: string, nowMs: number): number {
  const atMs = read(text, nowMs);
  const help = `Write 22:00, 2026-03-01T22:00 or +2h.`;
  if (atMs === undefined || !Number.isFinite(atMs))
    throw new OrbweaverError("BAD_INPUT", `${flag} ${JSON.stringify(text)} is no time. ${help}`);
  if (atMs > nowMs) return atMs;
  throw new OrbweaverError("BAD_INPUT", `${flag} ${text} has passed. ${help}`);
}

function read(text: string, nowMs: number): number | undefined {
  if (text.startsWith("+")) {
    const length = parseDuration(text.slice(1));
    return length.kind === "read" ? nowMs + length.value : undefined;
  }
  const [, hour, minute] = /^([01]?\d|2[0-3]):([0-5]\d)$/.exec(text) ?? [];
  if (hour !== undefined && minute !== undefined) {
    const at = new Date(nowMs);
    at.setHours(Number(hour), Number(minute), 0, 0);
    if (at.getTime() <= nowMs) at.setDate(at.getDate() + 1);
    return at.getTime();
  }
  return /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text) ? Date.parse(text) : undefined;
}
