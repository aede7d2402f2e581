/**
 * @file Reads a file that a job may have put anything in the place of: a link, a pipe or a device is not read.
 *
 * Nothing that is wrong with such a file is an error of ours: it says nothing then.
 */

import { closeSync, constants, fstatSync, openSync, type Stats } from "node:fs";

/** What `read` makes of the open file; undefined of anything but a plain file, or when reading fails. */
export function readPlainFile<T>(
  file: string,
  read: (handle: number, found: Stats) => T | undefined,
): T | undefined {
  let handle: number;
  try {
    handle = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const found = fstatSync(handle);
    return found.isFile() ? read(handle, found) : undefined;
  } catch {
    return undefined;
  } finally {
    closeSync(handle);
  }
}
