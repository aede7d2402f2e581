/** @file Reads a file that says what an agent may do: only root or the agent's user may have written it. */

import { closeSync, fstatSync, openSync, readFileSync } from "node:fs";

const WRITABLE_BY_OTHERS = 0o022;

/** Throws where the file is missing, or where others may write it. */
export function readOwnedFile(file: string): string {
  const handle = openSync(file, "r");
  try {
    const { uid, mode } = fstatSync(handle);
    if ((uid !== 0 && uid !== process.getuid?.()) || (mode & WRITABLE_BY_OTHERS) !== 0)
      throw new Error("it must belong to root or to the agent's user, and only they may write it");
    return readFileSync(handle, "utf8");
  } finally {
    closeSync(handle);
  }
}
