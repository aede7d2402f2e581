/**
 * @file Removes a file or a folder so that a death at any step leaves it whole or gone, and never takes what is needed again meanwhile.
 *
 * It is renamed aside in its own folder, so on its own file system; then it is asked again whether it may go; then it is renamed once more, and only
 * what has that second name is taken apart. `putBack` ends what a dead collection has begun: what was not asked about comes back, what was is removed.
 */

import { randomUUID } from "node:crypto";
import { lstatSync, readdirSync, renameSync, rmdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { nodeFiles } from "../../agent/system/node-files.ts";
import { hasErrorCode } from "../../lib/error-code.ts";
import { namesIn } from "./measure.ts";

/** What is done to the disk, one call a step; tests stop between any two. */
export interface Disk {
  readonly rename: (from: string, to: string) => void;
  /** A file, or a folder with all that is in it; no link is followed. */
  readonly remove: (path: string) => void;
  readonly removeEmpty: (folder: string) => void;
}

export const realDisk: Disk = {
  rename: renameSync,
  remove: nodeFiles.remove,
  removeEmpty: rmdirSync,
};

const UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}";
const ASIDE = new RegExp(String.raw`^\.(aside|gone)\.(.+)\.${UUID}$`, "s");

export type Removed = "removed" | "needed" | "missing";

/** `isStillDue` looks at it under its new path. */
export async function removeAsked(
  path: string,
  isStillDue: (aside: string) => boolean | Promise<boolean>,
  disk: Disk = realDisk,
): Promise<Removed> {
  const folder = dirname(path);
  const named = (stage: "aside" | "gone"): string =>
    join(folder, `.${stage}.${basename(path)}.${randomUUID()}`);
  const aside = named("aside");
  try {
    disk.rename(path, aside);
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return "missing";
    throw error;
  }
  let mayGo = false;
  try {
    mayGo = await isStillDue(aside);
  } finally {
    if (!mayGo) comeBack(aside, path, disk);
  }
  if (!mayGo) return "needed";
  const gone = named("gone");
  disk.rename(aside, gone);
  disk.remove(gone);
  return "removed";
}

export interface PutBack {
  /** The number of things that came back. */
  readonly back: number;
  /** A path, and why it is as it was: some files are another user's. */
  readonly failed: readonly string[];
}

/** In a folder of things that may be collected. What fails holds up nothing else. */
export function putBack(folder: string, disk: Disk = realDisk): PutBack {
  let back = 0;
  const failed: string[] = [];
  for (const name of namesIn(folder)) {
    const [, stage, former] = ASIDE.exec(name) ?? [];
    if (former === undefined) continue;
    const path = join(folder, name);
    try {
      if (stage === "gone") disk.remove(path);
      else {
        comeBack(path, join(folder, former), disk);
        back += 1;
      }
    } catch (error) {
      failed.push(failure(path, error));
    }
  }
  return { back, failed };
}

export const failure = (path: string, error: unknown): string =>
  `${path}: ${error instanceof Error ? error.message : String(error)}`;

/**
 * Where something has its name by now, what is not in that comes back into it; a file is there again by the same hash. Throws where that is a folder of a job's
 * user, or a link: it would lead root to wherever that user wants the files.
 */
function comeBack(aside: string, path: string, disk: Disk): void {
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there === undefined) return disk.rename(aside, path);
  if (!lstatSync(aside).isDirectory()) return disk.remove(aside);
  if (!there.isDirectory() || there.uid !== process.getuid?.())
    throw new Error(`${path} is there again, and not of this user; what was in it is in ${aside}`);
  const names = new Set(readdirSync(path));
  for (const name of readdirSync(aside)) {
    if (names.has(name)) comeBack(join(aside, name), join(path, name), disk);
    else disk.rename(join(aside, name), join(path, name));
  }
  disk.removeEmpty(aside);
}

/** A folder of nothing but what was removed. */
export function removeIfEmpty(folder: string, disk: Disk = realDisk): void {
  try {
    disk.removeEmpty(folder);
  } catch (error) {
    if (!["ENOTEMPTY", "ENOENT", "EEXIST"].some((code) => hasErrorCode(error, code))) throw error;
  }
}
