/**
 * @file Cgroups through their file system: the real `Groups`. Loaded by the shim, so it needs nothing but Node.
 *
 * Version 2 kills by `cgroup.kill` (Linux 5.14 and later). Before that, and in version 1, the group is frozen, signalled and thawed, so that no
 * process forks meanwhile. Version 1 without a freezer has only the signals. Cost: about 50 µs a call for a small group.
 */

import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { Groups } from "../ports/groups.ts";
import { nodeFiles } from "./node-files.ts";
import { nodeProcesses } from "./node-processes.ts";

/** A group freezes within a few looks, or holds a process that the kernel keeps from it; the signals work then, too. */
const FREEZE_LOOKS = 100;

export const nodeGroups: Groups = {
  make: (path) => {
    mkdirSync(path, { recursive: true });
  },
  limitPids: (path, most) => {
    // In version 2 a controller reaches a group only through the one above it.
    if (!existsSync(join(path, "pids.max"))) sent(dirname(path), "cgroup.subtree_control", "+pids");
    writeFileSync(join(path, "pids.max"), String(most));
  },
  pids: (path) =>
    [path, ...treeBelow(path)].flatMap((group) =>
      (nodeFiles.readText(join(group, "cgroup.procs")) ?? "")
        .split("\n")
        .map(Number)
        // 0 stands for a process of another PID namespace.
        .filter((pid) => pid > 0),
    ),
  below: namesBelow,
  kill: (path) => {
    if (!existsSync(path) || sent(path, "cgroup.kill", "1")) return;
    const groups = [path, ...treeBelow(path)];
    const frozen = groups.filter((group) => freeze(group));
    for (const pid of nodeGroups.pids(path)) nodeProcesses.signal(pid, "SIGKILL");
    for (const group of frozen) thaw(group);
  },
  remove: (path) => {
    for (const group of [...treeBelow(path), path]) {
      try {
        rmdirSync(group);
      } catch {
        // It is gone, or a process is still on its way out: whoever scans next removes it.
      }
    }
  },
};

/** The groups below, each after those below it. */
const treeBelow = (path: string): readonly string[] =>
  namesBelow(path).flatMap((name) => {
    const group = join(path, name);
    return [...treeBelow(group), group];
  });

function namesBelow(path: string): readonly string[] {
  try {
    return readdirSync(path, { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? [entry.name] : [],
    );
  } catch {
    return [];
  }
}

/** False where the group has no such file, or refuses. */
function sent(group: string, file: string, word: string): boolean {
  const path = join(group, file);
  if (!existsSync(path)) return false;
  try {
    writeFileSync(path, word);
    return true;
  } catch {
    return false;
  }
}

function freeze(group: string): boolean {
  if (sent(group, "cgroup.freeze", "1")) return true;
  if (!sent(group, "freezer.state", "FROZEN")) return false;
  for (let look = 0; look < FREEZE_LOOKS; look += 1)
    if (readFileSync(join(group, "freezer.state"), "latin1").trim() === "FROZEN") break;
  return true;
}

function thaw(group: string): void {
  if (!sent(group, "cgroup.freeze", "0")) sent(group, "freezer.state", "THAWED");
}
