/**
 * @file Reads and replaces the small JSON files through which an agent, its shims and a later agent share the facts of a launch.
 *
 * A file is replaced by rename, so no reader sees half of one, whichever process is killed in between. `createJsonOnce` is the only way to
 * take something exclusively: a hard link fails when the name exists, and its content is there from the first moment.
 * Loaded by the shim, so it needs nothing but Node.
 */

import { dirname } from "node:path";
import { hasErrorCode } from "../../lib/error-code.ts";
import type { Files, WriteOptions } from "../ports/files.ts";

/** Survives the death of every process, not of the machine. */
export const replaceJson = (files: Files, path: string, value: unknown): void =>
  replaceText(files, path, JSON.stringify(value));

/** As `replaceJson`. */
export function replaceText(files: Files, path: string, text: string): void {
  const aside = files.asideOf(path);
  files.write(aside, text);
  files.rename(aside, path);
}

/** Survives the death of the machine too: returns when file and name are on disk. */
export async function replaceJsonDurably(
  files: Files,
  path: string,
  value: unknown,
): Promise<void> {
  const aside = files.asideOf(path);
  await files.writeDurably(aside, JSON.stringify(value));
  files.rename(aside, path);
  await files.syncFolder(dirname(path));
}

/** Whether this call created the file; false when it was there already. */
export function createJsonOnce(
  files: Files,
  path: string,
  value: unknown,
  options?: WriteOptions,
): boolean {
  const aside = files.asideOf(path);
  try {
    files.write(aside, JSON.stringify(value), options);
    files.link(aside, path);
    return true;
  } catch (error) {
    if (hasErrorCode(error, "EEXIST")) return false;
    throw error;
  } finally {
    files.remove(aside);
  }
}

/** The last value written; undefined when nothing was, or when a crash of the machine left no JSON. */
export function readJson<T>(files: Files, path: string): T | undefined {
  const text = files.readText(path);
  if (text === undefined) return undefined;
  try {
    // Only Orbweaver writes these files, and each name has one type, fixed beside the name in `launch-files.ts`.
    return JSON.parse(text) as T;
  } catch {
    return undefined;
  }
}
