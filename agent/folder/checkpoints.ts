/**
 * @file Where a job's checkpoints live, and which is the newest complete one.
 *
 * A job has one folder for all its attempts: `run.checkpoint.dir`, else a folder that the agent keeps for it. In it, a run
 * writes below its own token: `$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/<name>`. Every entry there, file or folder, is a
 * complete checkpoint unless its name ends in `.tmp` or starts with a dot: write `<name>.tmp`, then rename it to `<name>`.
 * The newest is of the highest token that has one, and there the last by modification time, then by name: a stale run
 * that still writes below a lower token cannot become the newest. Of a job that ran in several fleets, whose tokens have no order of
 * their own, the runs are put in the order in which they were.
 * The folder is the job's, which may put anything into it: an entry that cannot be looked at, as a link to itself, is no checkpoint, and of very
 * many entries only the last by name are looked at. An agent of root looks into folders of runs that belong to the job's user, and follows no link there:
 * names and times of what is closed to that user would show otherwise.
 * The tasks of a job array have such a folder each, `tasks/<task>` below that of the job.
 */

import { join } from "node:path";
import { byCodeUnit } from "../../domain/values/ids.ts";
import type { CheckpointMark } from "../../protocol/agent-contract.ts";
import type { FileFact, Files } from "../ports/files.ts";

/** One look stops the agent for no longer than a second. */
export const MOST_ENTRIES = 10_000;
const MOST_RUNS = 1_000;

export interface CheckpointLook {
  /** Tokens, oldest first, all of them newer than those that are not named. */
  readonly runs?: readonly number[] | undefined;
  /** Of the job's user, where that is not the agent's. */
  readonly uid?: number | undefined;
}

/**
 * The newest complete checkpoint of the job that this host can see.
 * Throws the system's error where a folder is there and cannot be read: who starts from nothing then would lose work.
 */
export function newestCheckpoint(
  files: Files,
  checkpointDir: string,
  { runs = [], uid }: CheckpointLook = {},
): CheckpointMark | undefined {
  const places = new Map(runs.map((token, place) => [token, place] as const));
  const placeOf = (token: number): number => places.get(token) ?? -1;
  const tokens = files
    .list(checkpointDir)
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .sort((a, b) => placeOf(b) - placeOf(a) || b - a)
    .slice(0, MOST_RUNS);
  for (const token of tokens) {
    const newest = allIn(files, tokenDir(checkpointDir, token), uid).at(-1);
    if (newest !== undefined) return newest;
  }
  return undefined;
}

/** The complete checkpoints of one run that can be seen, oldest first. */
export function completeIn(
  files: Files,
  dir: string,
  uid: number | undefined,
): readonly CheckpointMark[] {
  try {
    return allIn(files, dir, uid);
  } catch {
    return [];
  }
}

const complete = (names: readonly string[]): readonly string[] =>
  names
    .filter((name) => !name.endsWith(".tmp") && !name.startsWith("."))
    .sort(byCodeUnit)
    .slice(-MOST_ENTRIES);

function allIn(files: Files, dir: string, uid: number | undefined): readonly CheckpointMark[] {
  const found =
    uid === undefined
      ? complete(files.list(dir)).flatMap((name) => {
          const fact = factOf(files, join(dir, name));
          return fact === undefined ? [] : [{ name, fact }];
        })
      : files.listOwned(dir, uid, complete);
  return found
    .map(({ name, fact }) => ({ path: join(dir, name), atMs: Math.round(fact.mtimeMs) }))
    .sort((a, b) => a.atMs - b.atMs || byCodeUnit(a.path, b.path));
}

function factOf(files: Files, path: string): FileFact | undefined {
  try {
    return files.stat(path);
  } catch {
    return undefined;
  }
}

export const tokenDir = (checkpointDir: string, token: number): string =>
  join(checkpointDir, String(token));

/** A task of a job array has a folder of its own, below that of the job. */
export const taskCheckpointDir = (checkpointDir: string, task: number): string =>
  join(checkpointDir, "tasks", String(task));
