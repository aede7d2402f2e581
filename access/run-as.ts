/**
 * @file How an agent of root starts a process of a job as a user of its host: the user's groups, no capabilities and no way to any, limits, umask,
 * home, and a private `/tmp`, in a mount namespace of the process. By the native supervisor (`agent/native/exec-step.c`), else by util-linux.
 *
 * As root, with paths that nothing of the job can change: folders that the job may write are handed to the user, `/tmp` becomes a folder of
 * the lease, limits are set. Then all of root is dropped, and only then anything of the job is looked up. The environment is the job's
 * throughout, so a policy denies what the dynamic linker and libc obey.
 */

import { execFileSync } from "node:child_process";
import { accessSync, readFileSync, statSync } from "node:fs";
import { OrbweaverError } from "../domain/values/failure.ts";

export interface HostUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  /** All groups of the user, the first one included. */
  readonly groups: readonly number[];
  readonly home: string;
}

export interface ProcessLimits {
  /** Of all processes of the user. */
  readonly processes: number;
  readonly openFiles: number;
}

export interface RunAs {
  readonly user: HostUser;
  readonly limits: ProcessLimits;
  /** Of the agent; everything in it that is not handed over stays root's. */
  readonly stateDir: string;
  /** A folder on the way to it that lets nobody pass. */
  readonly cover?: string;
  /** The native supervisor, which does all of this by system calls; without one, programs of util-linux do. */
  readonly native?: string;
}

/** What the job's user gets. */
export interface HandedOver {
  /** Becomes `/tmp`. */
  readonly tmp: string;
  readonly folders: readonly string[];
  /** With what is in it. */
  readonly given?: string;
}

const TOOLS = ["unshare", "prlimit", "setpriv", "mount", "mkdir", "chown", "chmod", "dirname"];
const OTHERS_MAY_PASS = 0o001;

/** A state folder that is in `/tmp`, or behind a folder that lets nobody pass, is mounted where it was, over what hides it. */
const APART = `set -e
umask 077
bin=/usr/bin owner=$1 tmp=$2 state=$3 cover=$4 given=$5 count=$6
shift 6
$bin/mkdir -p "$tmp"
[ -z "$given" ] || [ ! -O "$given" ] || $bin/chown -hR "$owner" "$given"
while [ "$count" -gt 0 ]; do
  $bin/chown -h "$owner" "$1"
  at=$1
  while at=$($bin/dirname "$at"); do
    case "$at/" in "$state/"*) $bin/chmod o+x "$at" ;; *) break ;; esac
  done
  shift
  count=$((count - 1))
done
exec 9<"$state"
$bin/mount --bind "$tmp" /tmp
case "$cover/" in /tmp/*) cover= ;; esac
[ -z "$cover" ] || $bin/mount -t tmpfs -o mode=0755,size=1m tmpfs "$cover"
hidden=$cover
case "$state/" in /tmp/*) hidden=/tmp ;; esac
if [ -n "$hidden" ]; then
  (umask 066 && $bin/mkdir -p "$state")
  $bin/mount -c --bind /proc/self/fd/9 "$state"
fi
exec 9<&-
exec "$@"`;

/** As the user. An array task whose job has no checkpoint rule has no folder for checkpoints, which only the agent could make. */
const START = `umask 077
if [ -n "$ORBWEAVER_LAUNCH_TASK" ]; then /usr/bin/mkdir -p -- "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN" 2>/dev/null
elif [ -n "$ORBWEAVER_CHECKPOINT_DIR" ]; then /usr/bin/mkdir -p -- "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN" || exit 126
fi
exec "$@"`;

/** What the command of each process of the job begins with. */
export function asUser(
  { user, limits, stateDir, cover = "", native }: RunAs,
  { tmp, folders, given = "" }: HandedOver,
): readonly string[] {
  const handed = [...folders, tmp, ...(given === "" ? [] : [given])];
  if (native !== undefined)
    return [
      ...[native, "--as-user", String(user.uid), String(user.gid), user.groups.join(",")],
      ...[String(limits.processes), String(limits.openFiles), tmp, stateDir, cover, given],
      ...[String(handed.length), ...handed, "--"],
    ];
  return [
    ...["/usr/bin/unshare", "--mount", "--propagation", "private", "--"],
    ...["/bin/sh", "-c", APART, "apart", `${String(user.uid)}:${String(user.gid)}`],
    ...[tmp, stateDir, cover, given, String(handed.length), ...handed],
    ...becomeUser({ user, limits }),
    ...["/bin/sh", "-c", START, "job"],
  ];
}

/** The same user, limits and privileges without a mount namespace; what such a process begins with, by util-linux. */
export function becomeUser({ user, limits }: Pick<RunAs, "user" | "limits">): readonly string[] {
  const limit = (name: string, most: number): string => `--${name}=${String(most)}:${String(most)}`;
  return [
    ...["/usr/bin/prlimit", limit("nproc", limits.processes), limit("nofile", limits.openFiles)],
    "--core=0:0",
    ...["/usr/bin/setpriv", `--reuid=${String(user.uid)}`, `--regid=${String(user.gid)}`],
    ...["--init-groups", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--"],
  ];
}

/** Throws BAD_INPUT when the system knows no such user. */
export function hostUser(name: string): HostUser {
  try {
    const line = execFileSync("getent", ["passwd", "--", name], { encoding: "utf8" });
    const [known = "", , uid = "", gid = "", , home = "/"] = line.trim().split(":");
    const groups = execFileSync("id", ["-G", "--", name], { encoding: "utf8" });
    if (known === name)
      return {
        ...{ name, uid: Number(uid), gid: Number(gid), home },
        groups: groups.trim().split(" ").map(Number),
      };
  } catch {
    // It ends with an exit code of 2 for a name that nobody has.
  }
  throw new OrbweaverError("BAD_INPUT", `this host has no user ${name}, whom its policy names`);
}

/** Of every process of a job: the exec step has lowered the hard limit to this by the time its user is taken (`agent/system/exec-step.ts`). */
export const MOST_OPEN_FILES = 65_536;

/** Without a privilege of its own even root may only lower its limits: the policy's, as far as the agent's own and the exec step's allow. */
export function withinOwnLimits({ processes, openFiles }: ProcessLimits): ProcessLimits {
  const own = readFileSync("/proc/self/limits", "utf8");
  const most = (name: string): number =>
    Number(new RegExp(`^${name} +\\S+ +(\\d+)`, "m").exec(own)?.[1] ?? Infinity);
  return {
    processes: Math.min(processes, most("Max processes")),
    openFiles: Math.min(openFiles, MOST_OPEN_FILES, most("Max open files")),
  };
}

/** Why jobs cannot be started as other users here; undefined when they can. */
export function runAsTrouble(): string | undefined {
  try {
    execFileSync("/usr/bin/unshare", ["--mount", "--propagation", "private", "--", "/bin/true"]);
    for (const tool of TOOLS) accessSync(`/usr/bin/${tool}`);
    return undefined;
  } catch (error) {
    return `it needs mount namespaces, and ${TOOLS.join(", ")} in /usr/bin: ${String(error)}`;
  }
}

/** The topmost folder on the way to another that lets nobody but its owner pass; undefined when there is none. */
export function closedAbove(path: string): string | undefined {
  const above = path.split("/").map((_name, at, names) => names.slice(0, at).join("/"));
  return above.find((dir) => dir !== "" && (statSync(dir).mode & OTHERS_MAY_PASS) === 0);
}
