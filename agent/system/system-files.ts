/** @file What the kernel and its drivers show in files, where they do: a file or folder that is not there says nothing. */

import { readdirSync, readFileSync } from "node:fs";

/** Sorted. Bus ids are of one length, so their order is that of the devices. */
export function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

/** Without white space around it. */
export function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch {
    return "";
  }
}
