/** @file What lies below a path and how large it is. Links are counted as links and not followed; what vanishes or may not be read meanwhile is said, not an error. */

import { lstatSync, readdirSync, type Stats } from "node:fs";
import { join } from "node:path";
import { byCodeUnit } from "../../domain/values/ids.ts";
import { hasErrorCode } from "../../lib/error-code.ts";

export interface Amount {
  readonly files: number;
  readonly bytes: number;
  /** Files and folders that could not be looked at. */
  readonly unread: number;
}

export interface Measured extends Amount {
  /** Of its files, the last change; 0 where there are none. */
  readonly changedAtMs: number;
}

const NOTHING: Measured = { files: 0, bytes: 0, unread: 0, changedAtMs: 0 };

export const sum = (parts: readonly Measured[]): Measured =>
  parts.reduce(
    (all, { files, bytes, unread, changedAtMs }) => ({
      files: all.files + files,
      bytes: all.bytes + bytes,
      unread: all.unread + unread,
      changedAtMs: Math.max(all.changedAtMs, changedAtMs),
    }),
    NOTHING,
  );

/** The size of a file, or of all files below a folder; a link is a file of the length of its text. */
export function measure(path: string): Measured {
  let all = NOTHING;
  const open = [path];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const at = next;
    const stats = looked(() => lstatSync(at));
    if (stats === "unread") all = { ...all, unread: all.unread + 1 };
    if (typeof stats === "string") continue;
    if (!stats.isDirectory()) {
      all = sum([all, measured(stats)]);
      continue;
    }
    const names = looked(() => readdirSync(at));
    if (names === "unread") all = { ...all, unread: all.unread + 1 };
    // One by one: so many arguments as a folder may have names are more than a call may have.
    if (typeof names !== "string") for (const name of names) open.push(join(at, name));
  }
  return all;
}

const measured = ({ size, mtimeMs }: Stats): Measured => {
  return { files: 1, bytes: size, unread: 0, changedAtMs: mtimeMs };
};

/** Folders and files alike; a folder that is a link is none of ours. */
export function namesIn(folder: string): readonly string[] {
  const stats = looked(() => lstatSync(folder));
  if (typeof stats === "string" || !stats.isDirectory()) return [];
  const names = looked(() => readdirSync(folder));
  return typeof names === "string" ? [] : [...names].sort(byCodeUnit);
}

function looked<Value>(look: () => Value): Value | "gone" | "unread" {
  try {
    return look();
  } catch (error) {
    const isOneOf = (...codes: readonly string[]): boolean =>
      codes.some((code) => hasErrorCode(error, code));
    if (isOneOf("ENOENT", "ENOTDIR")) return "gone";
    if (isOneOf("EACCES", "EPERM")) return "unread";
    throw error;
  }
}

/** Of those the folders; one that is a link is none of ours, and what is below it is never looked at. */
export const foldersIn = (folder: string): readonly string[] =>
  namesIn(folder).filter((name) => {
    const stats = looked(() => lstatSync(join(folder, name)));
    return typeof stats !== "string" && stats.isDirectory();
  });

/** Of all hosts of this machine: the folders of their launches. */
export const leaseFolders = (stateDir: string): readonly string[] => {
  const hosts = join(stateDir, "hosts");
  return foldersIn(hosts).flatMap((cluster) =>
    foldersIn(join(hosts, cluster)).map((host) => join(hosts, cluster, host, "leases")),
  );
};
