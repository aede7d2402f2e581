/**
 * @file Reads and replaces the small JSON files through which agent, shim and a later agent talk about a launch.
 *
 * A file is replaced by rename, so that no reader sees half of one, whoever is killed in between. `createOnce` is the only
 * way to take something exclusively: a hard link fails when the name exists, and its content is there from the first moment.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** State belongs to the agent's user alone: plans hold the environment of jobs. */
export const PRIVATE_DIR = 0o700;
const PRIVATE_FILE = 0o600;

/** Survives the death of every process, not of the machine. */
export function replaceFile(path: string, value: unknown): void {
  const aside = asideOf(path);
  writeFileSync(aside, JSON.stringify(value), { mode: PRIVATE_FILE });
  renameSync(aside, path);
}

/** Survives the death of the machine too: returns when file and name are on disk. */
export async function replaceFileDurably(path: string, value: unknown): Promise<void> {
  const aside = asideOf(path);
  const file = await open(aside, "w", PRIVATE_FILE);
  try {
    await file.writeFile(JSON.stringify(value));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(aside, path);
  const folder = await open(dirname(path), "r");
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/** Whether this call created the file; false when it was there already. */
export function createOnce(path: string, value: unknown): boolean {
  const aside = asideOf(path);
  writeFileSync(aside, JSON.stringify(value), { mode: PRIVATE_FILE });
  try {
    linkSync(aside, path);
    return true;
  } catch (error) {
    if (isErrno(error, "EEXIST")) return false;
    throw error;
  } finally {
    rmSync(aside, { force: true });
  }
}

/** What was written last; undefined when nothing was, or when a crash of the machine left no JSON. */
export function readFile<T>(path: string): T | undefined {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (isErrno(error, "ENOENT") || isErrno(error, "ENOTDIR")) return undefined;
    throw error;
  }
  try {
    // Only Orbweaver writes these files, and each name has one type, fixed beside the name in `launch.ts`.
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}

export function makeFolder(path: string): string {
  mkdirSync(path, { recursive: true, mode: PRIVATE_DIR });
  return path;
}

export function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

let asides = 0;

/** Unique among the living: one agent and one shim write here. What a crash left over is overwritten by the next of that name. */
function asideOf(path: string): string {
  asides += 1;
  return `${path}.${process.pid}-${asides}.tmp`;
}
