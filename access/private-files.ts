/**
 * @file Files that their owner alone can read: databases, logs, state, checkpoints.
 *
 * What other programs create (the Temporal server its database) takes its mode from the umask of the process, which is inherited at its
 * start. What was there before, from a former release or a copy, is closed by `closeToOthers`.
 */

import {
  chmodSync,
  closeSync,
  constants,
  fchownSync,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  statSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { hasErrorCode } from "../lib/error-code.ts";

export const PRIVATE_DIR = 0o700;
export const PRIVATE_FILE = 0o600;
const PRIVATE_UMASK = 0o077;
const OTHERS = 0o077;

/** Runs `start`, which must not await, so that processes that it starts create files that nobody else can read. */
export function withPrivateUmask<T>(start: () => T): T {
  const former = process.umask(PRIVATE_UMASK);
  try {
    return start();
  } finally {
    process.umask(former);
  }
}

/**
 * Gives a file that root has made in another user's folder to that user, whose programs are to read it, too. Of anybody else's process the file stays
 * its own, and so does one of root where the system lets nobody give it.
 */
export function giveToFolderOwner(file: string): void {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = statSync(dirname(file));
  if (uid === 0) return;
  let fd: number | undefined;
  try {
    fd = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const found = fstatSync(fd);
    // That user may have put a link in its place meanwhile, or a second name of another file of root.
    if (found.isFile() && found.uid === 0 && found.nlink === 1) fchownSync(fd, uid, gid);
  } catch (error) {
    if (!["ELOOP", "EPERM", "EINVAL"].some((code) => hasErrorCode(error, code))) throw error;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/**
 * Takes all rights of group and others from a file, or from a folder and the files right in it. A path that is missing, a link, or
 * another user's stays as it is: a fleet's folder holds only its owner's files, and a link may point anywhere.
 */
export function closeToOthers(path: string): void {
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found === undefined || found.isSymbolicLink()) return;
  if (found.uid !== process.getuid?.()) return;
  if ((found.mode & OTHERS) !== 0) chmodSync(path, found.mode & 0o7777 & ~OTHERS);
  if (!found.isDirectory()) return;
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    if (entry.isFile()) closeToOthers(join(path, entry.name));
  }
}
