/** @file Numbers, times and the health of hosts as people read them. */

import { membersOf } from "../lib/bits.ts";
import type { HostRow } from "./wire.ts";

const UNITS = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;

/** `3h 12m`: the two largest units. */
export function durationText(ms: number): string {
  let left = Math.max(0, ms);
  const parts: string[] = [];
  for (const [name, unit] of UNITS) {
    const count = Math.floor(left / unit);
    left -= count * unit;
    if (count > 0 || (name === "s" && parts.length === 0)) parts.push(`${count}${name}`);
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

export const timeText = (ms: number): string =>
  ms === 0 ? "" : new Date(ms).toLocaleTimeString(undefined, { hour12: false });

export const counted = (count: number, one: string): string =>
  `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;

export const gpuCount = (masks: readonly (readonly [string, number])[]): number =>
  masks.reduce((sum, [, mask]) => sum + bits(mask), 0);

export function bits(mask: number): number {
  let count = 0;
  for (let rest = mask >>> 0; rest !== 0; rest &= rest - 1) count += 1;
  return count;
}

/** What rounds to nothing has no sign. */
export const tenths = (value: number): string =>
  (Math.abs(value) < 0.05 ? 0 : value).toLocaleString("en", {
    minimumFractionDigits: 1,
    maximumFractionDigits: 1,
  });

/** `92 %`. */
export const shareText = (part: number, whole: number): string =>
  `${whole === 0 ? 0 : Math.round((100 * part) / whole)} %`;

/** `GPU 3`, `GPUs 3, 5`. */
function gpusOf(mask: number): string {
  const gpus = membersOf(mask);
  return `GPU${gpus.length === 1 ? "" : "s"} ${gpus.join(", ")}`;
}

export function healthText(
  { condition, drainReason, silentSinceMs, gpuDrains }: HostRow,
  nowMs: number,
): string {
  if (condition === undefined)
    return gpuDrains === undefined
      ? "ready"
      : gpuDrains.map(({ mask, reason }) => `${gpusOf(mask)} drained: ${reason}`).join("; ");
  if (condition === "drained")
    return drainReason === undefined ? "drained" : `drained: ${drainReason}`;
  if (condition === "agentless") return "no agent";
  return silentSinceMs === undefined
    ? condition
    : `${condition}, silent for ${durationText(nowMs - silentSinceMs)}`;
}
