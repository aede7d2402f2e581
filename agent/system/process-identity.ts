/**
 * @file Identifies a process of this machine by boot id, pid and start time; see `agent/ports/processes.ts`.
 *
 * Linux reads `/proc`; elsewhere `ps` answers, with start times in whole seconds. Loaded by the shim, so it needs nothing but Node.
 */

import { execFileSync } from "node:child_process";
import { closeSync, openSync, readFileSync, readlinkSync, readSync } from "node:fs";
import type { ProcessIdentity, ProcessStat } from "../ports/processes.ts";

export type { ProcessIdentity };

/** The identity of a running process; undefined when none runs under `pid`. */
export function identityOf(pid: number): ProcessIdentity | undefined {
  const stat = statOf(pid);
  if (stat === undefined || stat.isZombie) return undefined;
  return { bootId: bootId(), pid, started: stat.started };
}

/** Whether the very process still runs. */
export function isAlive(identity: ProcessIdentity): boolean {
  if (identity.bootId !== bootId()) return false;
  const stat = statOf(identity.pid);
  return stat !== undefined && !stat.isZombie && stat.started === identity.started;
}

/** Our own identity. */
export function ownIdentity(): ProcessIdentity {
  const own = identityOf(process.pid);
  if (own === undefined)
    throw new Error(`process ${process.pid} cannot see itself; is /proc mounted?`);
  return own;
}

let knownBootId: string | undefined;

/** Changes with every start of the machine. */
export function bootId(): string {
  knownBootId ??= process.platform === "linux" ? linuxBootId() : bootTime();
  return knownBootId;
}

/** Linux: `pid:[4026531836]`. Elsewhere there is one. */
export const pidSpace = (): string =>
  process.platform === "linux" ? readlinkSync("/proc/self/ns/pid") : "";

export function statOf(pid: number): ProcessStat | undefined {
  if (process.platform !== "linux") return psRows(["-p", String(pid)])[0];
  const text = statText(pid);
  if (text === undefined) return undefined;
  // The command's name is in parentheses and may itself hold spaces and parentheses; the state follows it.
  const nameEnd = text.lastIndexOf(")");
  const [state, ppid, pgid, sid, ...rest] = text.slice(nameEnd + 2).split(" ");
  const started = rest[15];
  if (state === undefined || started === undefined) return undefined;
  return {
    pid,
    ppid: Number(ppid),
    pgid: Number(pgid),
    sid: Number(sid),
    started,
    isZombie: state === "Z" || state === "X",
    name: text.slice(text.indexOf("(") + 1, nameEnd),
  };
}

/** Longer than any: a name of 64 bytes, and about fifty numbers. */
const STAT_BYTES = Buffer.alloc(2_048);

/** A look reads hundreds of these: by one read into one buffer, a third of what a file read whole costs. */
function statText(pid: number): string | undefined {
  let handle: number | undefined;
  try {
    handle = openSync(`/proc/${pid}/stat`, "r");
    const size = readSync(handle, STAT_BYTES, 0, STAT_BYTES.length, 0);
    return STAT_BYTES.toString("latin1", 0, size);
  } catch {
    return undefined;
  } finally {
    if (handle !== undefined) closeSync(handle);
  }
}

/** The rows of `ps` for the processes that `selection` names. */
export function psRows(selection: readonly string[]): readonly ProcessStat[] {
  let text: string;
  try {
    text = execFileSync(
      "ps",
      [...selection, "-o", "pid=,ppid=,pgid=,stat=,lstart=,ucomm="],
      PS_OPTIONS,
    );
  } catch {
    return [];
  }
  return text.split("\n").flatMap((line) => {
    const [pid, ppid, pgid, state, ...rest] = line.trim().split(/\s+/);
    if (state === undefined || rest.length <= LSTART_WORDS) return [];
    return {
      pid: Number(pid),
      ppid: Number(ppid),
      pgid: Number(pgid),
      sid: Number(pgid),
      started: rest.slice(0, LSTART_WORDS).join(" "),
      isZombie: state.startsWith("Z"),
      name: rest.slice(LSTART_WORDS).join(" "),
    };
  });
}

/** As in `Thu Jan  1 00:00:00 1970`. */
const LSTART_WORDS = 5;

/** Without a fixed locale, start times read at different moments could be worded differently. */
export const PS_OPTIONS = {
  encoding: "utf8" as const,
  env: { PATH: process.env["PATH"], LC_ALL: "C" },
  maxBuffer: 64 * 1024 * 1024,
  stdio: ["ignore", "pipe", "ignore"] as ["ignore", "pipe", "ignore"],
};

function linuxBootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}

function bootTime(): string {
  try {
    return execFileSync("sysctl", ["-n", "kern.boottime"], PS_OPTIONS).trim();
  } catch {
    return "unknown";
  }
}
