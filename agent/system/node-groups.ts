/**
 * @file Cgroups through their file system: the real `Groups`. Loaded by the shim, so it needs nothing but Node.
 *
 * Version 2 kills by `cgroup.kill` (Linux 5.14 and later). Before that, and in version 1, the group is frozen, signalled and thawed, so that no
 * process forks meanwhile. Version 1 without a freezer has only the signals. Cost: about 50 µs a call for a small group.
 */

import { spawnSync } from "node:child_process";
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

const FILTER_MS = 5_000;
/** A group freezes within a few looks, or holds a process that the kernel keeps from it; the signals work then, too. */
const FREEZE_LOOKS = 100;

export const nodeGroups: Groups = {
  make: (path) => {
    mkdirSync(path, { recursive: true });
  },
  limitPids: (path, most) => {
    passDown(path, "pids", "pids.max");
    writeFileSync(join(path, "pids.max"), String(most));
  },
  limitMemory: (path, { bytes, endsWhole }) => {
    const most = String(bytes);
    if (!isVersion1(path, "memory.limit_in_bytes")) {
      passDown(path, "memory", "memory.max");
      writeFileSync(join(path, "memory.max"), most);
      sent(path, "memory.swap.max", "0");
      sent(path, "memory.oom.group", endsWhole ? "1" : "0");
      return;
    }
    writeFileSync(join(path, "memory.limit_in_bytes"), most);
    // Of memory and swap together, where swap is counted.
    sent(path, "memory.memsw.limit_in_bytes", most);
  },
  weighCpus: (path, { cpus, of }) => {
    const above = [dirname(path), dirname(dirname(path))];
    if (isVersion1(path, "cpu.shares")) {
      for (const group of above) sent(group, "cpu.shares", sharesOf(of));
      writeFileSync(join(path, "cpu.shares"), sharesOf(cpus));
      return;
    }
    passDown(path, "cpu", "cpu.weight");
    for (const group of above) sent(group, "cpu.weight", weightOf(of));
    writeFileSync(join(path, "cpu.weight"), weightOf(cpus));
  },
  denyDevices: (path, { denied, filter = "" }) => {
    const deny = join(path, "devices.deny");
    if (existsSync(deny)) {
      for (const device of denied) writeFileSync(deny, `c ${device} rwm`);
      return;
    }
    const words = ["--deny-devices", path, ...denied];
    const { status, stderr, error } = spawnSync(filter, words, {
      encoding: "utf8",
      timeout: FILTER_MS,
    });
    if (status !== 0) throw error ?? new Error(stderr.trim());
  },
  memoryUse: (path) => {
    const counts = textIn(path, "memory.events") ?? textIn(path, "memory.oom_control");
    if (counts === undefined) return undefined;
    const peak = textIn(path, "memory.peak") ?? textIn(path, "memory.max_usage_in_bytes");
    return {
      oomKills: Number(/^oom_kill (\d+)$/m.exec(counts)?.[1] ?? 0),
      ...(peak !== undefined && { peakBytes: Number(peak) }),
    };
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
    for (const group of [...treeBelow(path), path]) nodeGroups.removeEmpty(group);
    return !existsSync(path);
  },
  removeEmpty: (path) => {
    try {
      rmdirSync(path);
    } catch {
      // It is gone, or something is in it, if only a process that is on its way out.
    }
  },
};

/** In version 2 a controller reaches a group only through the one above it. */
function passDown(path: string, controller: string, file: string): void {
  if (!existsSync(join(path, file)))
    sent(dirname(path), "cgroup.subtree_control", `+${controller}`);
}

const isVersion1 = (path: string, file: string): boolean => existsSync(join(path, file));
const textIn = (path: string, file: string): string | undefined =>
  nodeFiles.readText(join(path, file));

/** Of version 1: 1024 a processor, as for a single process in the group's place. */
const sharesOf = (cpus: number): string => inBounds(cpus * 1_024, 2, 262_144);
/** Of version 2, where a group has 100 unless told otherwise. */
const weightOf = (cpus: number): string => inBounds(cpus * 10, 1, 10_000);
const inBounds = (weight: number, least: number, most: number): string =>
  String(Math.min(most, Math.max(least, Math.round(weight))));

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
