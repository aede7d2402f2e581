/**
 * @file The name of one life of an agent. Epochs of one host are ordered, by code unit, as its agents' lives were.
 *
 * The time of the start as eight base-36 digits, at least one more than the last life's, so that a clock that was set back changes
 * nothing; then random digits, so that two agents that never knew of each other have different queues.
 */

import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { isErrno, replaceFile } from "./state-files.ts";

const DIGITS = 8;

/** The epoch after those that the files name; on disk in each of them before it is used. */
export function beginEpoch(paths: readonly string[], nowMs: number): string {
  const epoch = nextEpoch(paths.flatMap(lastEpoch), nowMs);
  for (const path of paths) replaceFile(path, epoch);
  return epoch;
}

export function nextEpoch(lastEpochs: readonly string[], nowMs: number): string {
  const lastMs = lastEpochs.map((epoch) => Number.parseInt(epoch.slice(0, DIGITS), 36));
  const startMs = lastMs.reduce((latestMs, ms) => (ms >= latestMs ? ms + 1 : latestMs), nowMs);
  return `${startMs.toString(36).padStart(DIGITS, "0")}${randomBytes(3).toString("hex")}`;
}

/** What a host's `epoch` file says, with quotes or, from older agents, without; nothing when no agent has served it yet. */
function lastEpoch(path: string): readonly string[] {
  try {
    return [readFileSync(path, "utf8").replaceAll('"', "").trim()];
  } catch (error) {
    if (isErrno(error, "ENOENT")) return [];
    throw error;
  }
}
