/** @file Reads a file that says who may do what: only root or our own user may have written it. */

import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";

const WRITABLE_BY_OTHERS = 0o022;

export interface FileOnce {
  readonly text: string;
  /** Whether it belongs to root or to our own user, and only they may write it. */
  readonly isOwned: boolean;
}

/** Both of the same file, whatever takes its name meanwhile. Throws where it cannot be read. */
export function readOnce(file: string): FileOnce {
  const handle = openSync(file, "r");
  try {
    const { uid, mode } = fstatSync(handle);
    const isOurs = uid === 0 || uid === process.getuid?.();
    const isOwned = isOurs && (mode & WRITABLE_BY_OTHERS) === 0;
    return { text: readFileSync(handle, "utf8"), isOwned };
  } finally {
    closeSync(handle);
  }
}

/** Throws where the file is missing, or where others may write it. */
export function readOwnedFile(file: string): string {
  const { text, isOwned } = readOnce(file);
  if (isOwned) return text;
  throw new Error("it must belong to root or to the agent's user, and only they may write it");
}
