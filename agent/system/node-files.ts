/** @file The file system through Node: the real `Files`. Loaded by the shim, so it needs nothing but Node. */

import {
  closeSync,
  constants,
  fstatSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  realpathSync,
  renameSync,
  rmdirSync,
  rmSync,
  statfsSync,
  statSync,
  unlinkSync,
  watch,
  writeFileSync,
  writeSync,
  type FSWatcher,
  type Stats,
} from "node:fs";
import { open } from "node:fs/promises";
import { hasErrorCode } from "../../lib/error-code.ts";
import type { FileFact, FileRange, Files, NamedFact } from "../ports/files.ts";

/** State belongs to the agent's user alone: plans hold the environment of jobs. */
const PRIVATE_DIR = 0o700;
const PRIVATE_FILE = 0o600;
const SHARED_FILE = 0o644;

let asides = 0;

export const nodeFiles: Files = {
  readText: (path) => ifThere(() => readFileSync(path, "utf8")),
  readRange: (path, range) => withFile(path, "r", (handle) => bytesIn(handle, range)),
  readUntrusted: (path, rangeOf) => {
    const flags = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    try {
      return withFile(path, flags, (handle) => {
        const found = factOf(fstatSync(handle));
        const range = found.kind === "file" ? rangeOf(found) : undefined;
        return range && bytesIn(handle, range);
      });
    } catch {
      return undefined;
    }
  },
  write: (path, text, { isShared = false } = {}) => {
    writeFileSync(path, text, { mode: isShared ? SHARED_FILE : PRIVATE_FILE });
  },
  writeDurably: async (path, text) => {
    const file = await open(path, "w", PRIVATE_FILE);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
  },
  overwrite: (path, text) => {
    const handle = openSync(path, "r+");
    try {
      writeSync(handle, text, 0);
    } finally {
      closeSync(handle);
    }
  },
  openAppender: (path) => {
    const handle = openSync(path, "a", PRIVATE_FILE);
    return { write: (bytes) => writeSync(handle, bytes), close: () => closeSync(handle) };
  },
  rename: renameSync,
  link: linkSync,
  remove: (path) => {
    // Elsewhere no path names an open folder, and no agent runs.
    if (process.getuid?.() === 0 && process.platform === "linux") removeAsRoot(path);
    else rmSync(path, { recursive: true, force: true });
  },
  list: (dir) => ifThere(() => readdirSync(dir)) ?? [],
  listOwned: (dir, uid, choose) => {
    const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
    try {
      return withFile(dir, flags, (handle) => ownedIn(handle, uid, choose)) ?? [];
    } catch (error) {
      // A link.
      if (hasErrorCode(error, "ELOOP")) return [];
      throw error;
    }
  },
  stat: (path) => ifThere(() => factOf(statSync(path))),
  makeFolder: (path) => mkdirSync(path, { recursive: true, mode: PRIVATE_DIR }) !== undefined,
  syncFolder: async (dir) => {
    const folder = await open(dir, "r");
    try {
      await folder.sync();
    } finally {
      await folder.close();
    }
  },
  realPath: (path) => realpathSync(path),
  freeBytes: (dir) => {
    const disk = statfsSync(dir);
    return disk.bavail * disk.bsize;
  },
  watch: (dir, onChange) => {
    let watcher: FSWatcher | undefined;
    try {
      watcher = watch(dir, { persistent: false }, onChange);
      watcher.on("error", () => watcher?.close());
    } catch {
      // No watches left, or a file system without them: the caller looks by itself from time to time.
    }
    return () => watcher?.close();
  },
  asideOf: (path) => {
    asides += 1;
    // What a crash left behind is overwritten by the next writer of that name.
    return `${path}.${process.pid}-${asides}.tmp`;
  },
};

const factOf = (found: Stats): FileFact => ({
  kind: found.isFile() ? "file" : found.isDirectory() ? "folder" : "other",
  sizeBytes: found.size,
  mtimeMs: found.mtimeMs,
});

function bytesIn(handle: number, { position, length }: FileRange): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(handle, bytes, 0, length, position));
}

const withFile = <T>(path: string | Buffer, flags: string | number, use: (handle: number) => T) =>
  ifThere(() => {
    const handle = openSync(path, flags);
    try {
      return use(handle);
    } finally {
      closeSync(handle);
    }
  });

/** By the open folder, so that its path may lead elsewhere by now. */
function ownedIn(
  handle: number,
  uid: number,
  choose: (names: readonly string[]) => readonly string[],
): readonly NamedFact[] {
  if (fstatSync(handle).uid !== uid) return [];
  const inside = `/proc/self/fd/${String(handle)}`;
  return choose(readdirSync(inside)).flatMap((name) => {
    const found = lstatSync(`${inside}/${name}`, { throwIfNoEntry: false });
    return found === undefined ? [] : [{ name, fact: factOf(found) }];
  });
}

/** How often a folder that is filled while it is removed is looked at again. */
const LOOKS = 3;

/**
 * Removes a file, or a folder with what is in it, whoever's that is: each folder is opened without following a link, and emptied by that handle. By its path, a
 * user to whom a folder was handed could put a link in its place between the look and the removal, and root would empty what the link leads to.
 */
function removeAsRoot(path: string | Buffer): void {
  if (isUnlinked(path)) return;
  const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
  for (let look = 1; ; look += 1) {
    withFile(path, flags, (handle) => {
      // As bytes: a name that is no UTF-8 would be another one as text.
      const inside = Buffer.from(`/proc/self/fd/${String(handle)}/`);
      for (const name of readdirSync(inside, "buffer")) removeAsRoot(Buffer.concat([inside, name]));
    });
    try {
      ifThere(() => rmdirSync(path));
      return;
    } catch (error) {
      // Only its own: to look again at what is in it for each folder above would take a power of the depth.
      if (!hasErrorCode(error, "ENOTEMPTY") || look === LOOKS) throw error;
    }
  }
}

/** False for a folder; true also where there is nothing. */
function isUnlinked(path: string | Buffer): boolean {
  try {
    ifThere(() => unlinkSync(path));
    return true;
  } catch (error) {
    if (hasErrorCode(error, "EISDIR")) return false;
    // Not even root removes what is marked as unchangeable.
    if (lstatSync(path, { throwIfNoEntry: false })?.isDirectory() === true) return false;
    throw error;
  }
}

function ifThere<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (hasErrorCode(error, "ENOENT") || hasErrorCode(error, "ENOTDIR")) return undefined;
    throw error;
  }
}
