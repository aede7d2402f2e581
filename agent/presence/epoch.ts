/**
 * @file The name of one life of an agent. Epochs of one host are ordered by code unit as its agents' lives were.
 *
 * The time of the start as eight base-36 digits, at least one more than that of the last life, so a clock that was set back changes
 * nothing. Random digits follow, so two agents that never knew of each other have different queues.
 */

import { replaceJson } from "../folder/json-files.ts";
import type { System } from "../ports/system.ts";

const DIGITS = 8;
const RANDOM_BYTES = 3;

/** The epoch after those that the files name; on disk in each of them before it is used. */
export function beginEpoch(
  paths: readonly string[],
  { files, clock, randomHex }: Pick<System, "files" | "clock" | "randomHex">,
): string {
  // With quotes or, from older agents, without; nothing when no agent has served the host yet.
  const last = paths.flatMap((path) => files.readText(path)?.replaceAll('"', "").trim() ?? []);
  const epoch = nextEpoch(last, clock.nowMs(), randomHex(RANDOM_BYTES));
  for (const path of paths) replaceJson(files, path, epoch);
  return epoch;
}

export function nextEpoch(lastEpochs: readonly string[], nowMs: number, suffix: string): string {
  const lastMs = lastEpochs.map((epoch) => Number.parseInt(epoch.slice(0, DIGITS), 36));
  const startMs = lastMs.reduce((latestMs, ms) => (ms >= latestMs ? ms + 1 : latestMs), nowMs);
  return `${startMs.toString(36).padStart(DIGITS, "0")}${suffix}`;
}
