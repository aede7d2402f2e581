/** @file Times and amounts as text, short enough for a column. */

/** `0s`, `59s`, `4m10s`, `3h05m`, `2d04h`: the two largest units, rounded down. */
export function durationText(lengthMs: number): string {
  const seconds = Math.max(0, Math.floor(lengthMs / 1000));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const days = Math.floor(hours / 24);
  if (minutes === 0) return `${String(seconds)}s`;
  if (hours === 0) return `${String(minutes)}m${twoDigits(seconds % 60)}s`;
  if (days === 0) return `${String(hours)}h${twoDigits(minutes % 60)}m`;
  return `${String(days)}d${twoDigits(hours % 24)}h`;
}

export { timeText } from "../../domain/values/wall-time.ts";

/** `1 GPU`, `2 GPUs`. */
export function counted(count: number, noun: string): string {
  return `${String(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}

/** `1 host keeps each launch`, `2 hosts keep each launch`, of what many do. */
export function countedDo(count: number, noun: string, manyDo: string): string {
  const [verb = "", ...rest] = manyDo.split(" ");
  const oneDoes = IRREGULAR.get(verb) ?? `${verb}s`;
  return [counted(count, noun), count === 1 ? oneDoes : verb, ...rest].join(" ");
}

const IRREGULAR: ReadonlyMap<string, string> = new Map([
  ["have", "has"],
  ["were", "was"],
]);
