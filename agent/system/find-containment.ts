/**
 * @file Finds the best container that works on this machine for this user, by trying each.
 *
 * A cgroup counts when a process of ours can be put into a new group and be killed through it. Under systemd an agent stays in its own unit's
 * cgroup, which is the only part of the tree that may be its own (`Delegate=yes`); elsewhere it takes the highest one that it may write to, which a
 * restarted agent finds again. A subreaper needs `perl` or `python3`, because Node has no `prctl`; either becomes the shim, so nothing stays.
 * Cost: a few starts of small programs, once in an agent's life.
 */

import { spawnSync } from "node:child_process";
import { accessSync, constants, existsSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import {
  CONTAINER_KINDS,
  MARKS_ALONE,
  ownersIn,
  type ContainerKind,
  type Containment,
  type GroupContainment,
} from "../containment/container.ts";
import { userName } from "../containment/group-user.ts";
import { nodeGroups } from "./node-groups.ts";
import { ownIdentity, pidSpace } from "./process-identity.ts";
import { withExecStep } from "./exec-step.ts";

const TRIAL_MS = 5_000;
/** Of `prctl(2)`, by the machine's kind. */
const PRCTL: Readonly<Partial<Record<string, number>>> = {
  x64: 157,
  arm64: 167,
  ppc64: 171,
  s390x: 172,
  riscv64: 167,
};
const PR_SET_CHILD_SUBREAPER = 36;
const PID_MAX = "/proc/sys/kernel/pid_max";
const LEAST_PIDS = 1_024;
const LAUNCHES_OF_ALL_PIDS = 4;
/** Version 1 hierarchies that can hold our groups, the one that can freeze first. */
const CONTROLLERS = ["freezer", "pids", "cpuacct", "memory", "devices"];

const known = new Map<ContainerKind, Containment | undefined>();

/** The best of the kinds; the marks always work. Each is tried once in the life of this process. */
export function findContainment(kinds: readonly ContainerKind[] = CONTAINER_KINDS): Containment {
  for (const kind of kinds) {
    if (!known.has(kind)) known.set(kind, FINDERS[kind]());
    const found = known.get(kind);
    if (found !== undefined) return found;
  }
  return MARKS_ALONE;
}

const FINDERS: Readonly<Record<ContainerKind, () => Containment | undefined>> = {
  cgroup2: () => {
    const base = ownBase({ type: "cgroup2", controller: "" });
    return base === undefined ? undefined : { kind: "cgroup2", base, ...keptLimits(base) };
  },
  cgroup1: () => {
    for (const controller of CONTROLLERS) {
      const base = ownBase({ type: "cgroup", controller });
      if (base !== undefined) return { kind: "cgroup1", base, ...keptLimits() };
    }
    return undefined;
  },
  subreaper: () => {
    const prefix = reaperPrefixes().find(
      ([program = "", ...words]) =>
        spawnSync(program, [...words, "true"], { stdio: "ignore", timeout: TRIAL_MS }).status === 0,
    );
    return prefix === undefined ? undefined : { kind: "subreaper", prefix };
  },
  marks: () => MARKS_ALONE,
};

/**
 * Where processes are counted, memory is limited and processors are shared: version 2 itself where its controller is or can be passed down to our
 * groups, else the hierarchy of version 1.
 */
function keptLimits(unified?: string): Pick<GroupContainment, "bound" | "memory" | "cpu"> {
  const baseFor = (controller: string, file: string): string | undefined =>
    unified !== undefined && isPassedDown(unified, controller, file)
      ? unified
      : ownBase({ type: "cgroup", controller });
  const counted = baseFor("pids", "pids.max");
  const limited = baseFor("memory", "memory.max");
  const shared = baseFor("cpu", "cpu.weight");
  return {
    ...(counted !== undefined && { bound: { base: counted, pids: mostPids() } }),
    ...(limited !== undefined && { memory: { base: limited } }),
    ...(shared !== undefined && { cpu: { base: shared } }),
  };
}

/** A quarter of what the kernel can number, so that one launch that forks without end leaves room for agent, shims and other launches. */
const mostPids = (): number =>
  Math.max(LEAST_PIDS, Math.floor(Number(textOf(PID_MAX)) / LAUNCHES_OF_ALL_PIDS));

/** For a trial, by our own process's name: the next agent of the machine removes that of one which was killed meanwhile. */
export function trialGroup(base: string): string {
  const { pid, started } = ownIdentity();
  return join(ownersIn(base), userName({ space: pidSpace(), pid, started }));
}

/** Controllers are passed down level by level; a group that holds processes itself, as our own may, refuses that. */
function isPassedDown(base: string, controller: string, file: string): boolean {
  const ours = ownersIn(base);
  const trial = trialGroup(base);
  try {
    nodeGroups.make(trial);
    for (const group of [base, ours])
      writeFileSync(join(group, "cgroup.subtree_control"), `+${controller}`);
    return existsSync(join(trial, file));
  } catch {
    return false;
  } finally {
    nodeGroups.remove(trial);
  }
}

function reaperPrefixes(): readonly (readonly string[])[] {
  const call = PRCTL[process.arch];
  const perl = `syscall(${call},${PR_SET_CHILD_SUBREAPER},1,0,0,0)==0 or exit 125; exec @ARGV`;
  const python = `import ctypes,os,sys; ctypes.CDLL(None).prctl(${PR_SET_CHILD_SUBREAPER},1,0,0,0)==0 or sys.exit(125); os.execvp(sys.argv[1],sys.argv[1:])`;
  if (process.platform !== "linux") return [];
  return [...(call === undefined ? [] : [["perl", "-e", perl]]), ["python3", "-c", python]];
}

interface Hierarchy {
  readonly type: "cgroup" | "cgroup2";
  /** Of version 1; empty for version 2, as in `/proc/self/cgroup`. */
  readonly controller: string;
}

/** The folder for our groups in the hierarchy; undefined where there is none, or where a trial fails. */
export function ownBase({ type, controller }: Hierarchy): string | undefined {
  const mount = mounts().find(
    (each) => each.type === type && (type === "cgroup2" || each.options.includes(controller)),
  );
  const own = ownPath(controller);
  if (mount === undefined || own === undefined) return undefined;
  const inside = join(mount.at, own);
  // In a container the path may be that of the machine outside.
  const start = existsSync(join(inside, "cgroup.procs")) ? inside : mount.at;
  const base = isSystemd() ? groupOfUnit(start) : highestWritable(start, mount.at);
  return isWritable(base) && isKilledThrough(trialGroup(base)) ? base : undefined;
}

interface Mount {
  readonly type: string;
  readonly at: string;
  readonly options: readonly string[];
}

function mounts(): readonly Mount[] {
  return textOf("/proc/self/mounts")
    .split("\n")
    .flatMap((line) => {
      const [, at, type, options] = line.split(" ");
      if (at === undefined || type === undefined || options === undefined) return [];
      return { type, at: at.replaceAll("\\040", " "), options: options.split(",") };
    });
}

/** Our own group in the hierarchy of the controller; version 2 has none in its name. */
function ownPath(controller: string): string | undefined {
  for (const line of textOf("/proc/self/cgroup").split("\n")) {
    const [, names, ...path] = line.split(":");
    if (names?.split(",").includes(controller) === true) return path.join(":");
  }
  return undefined;
}

const isSystemd = (): boolean => existsSync("/run/systemd/system");

/**
 * Of a process that its service's manager has put into a subgroup (`DelegateSubgroup=`), the group of the service: it holds no processes itself, so it
 * may pass controllers down.
 */
export function groupOfUnit(group: string): string {
  const isUnit = /\.(?:service|scope|slice)$/.test(group);
  return !isUnit && dirname(group).endsWith(".service") ? dirname(group) : group;
}

function highestWritable(from: string, top: string): string {
  let base = from;
  for (let next = from; next.length >= top.length && isWritable(next); next = dirname(next))
    base = next;
  return base;
}

/** To move a process out of a group and into another takes the right to write to what both lie in. */
function isWritable(group: string): boolean {
  try {
    accessSync(group, constants.W_OK);
    accessSync(join(group, "cgroup.procs"), constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Whether a process that was put into the group, and its child, end when the group is killed. */
function isKilledThrough(group: string): boolean {
  try {
    nodeGroups.make(group);
    const [program = "", ...words] = withExecStep([group], ["/bin/sh", "-c", "sleep 60 &"]);
    const { status } = spawnSync(program, words, { stdio: "ignore", timeout: TRIAL_MS });
    if (status !== 0 || nodeGroups.pids(group).length === 0) return false;
    nodeGroups.kill(group);
    const untilMs = performance.now() + TRIAL_MS;
    while (nodeGroups.pids(group).length > 0 && performance.now() < untilMs) pauseMs(1);
    return nodeGroups.pids(group).length === 0;
  } catch {
    return false;
  } finally {
    nodeGroups.remove(group);
  }
}

const pauseMs = (forMs: number): unknown =>
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
