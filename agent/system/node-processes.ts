/**
 * @file The machine's processes through Node and `/proc`: the real `Processes`. Loaded by the shim, so it needs nothing but Node.
 *
 * Elsewhere than on Linux `ps` answers; there the environment of system binaries is not shown, so a daemonised `/bin/sh` may escape.
 * Cost: a small read for each process of the machine that no former look has found to be too old, two for those that may carry a mark; 3 ms for 180 at
 * first, 0.5 ms later.
 */

import { execFileSync, spawn } from "node:child_process";
import { closeSync, openSync, readdirSync, readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import type {
  OutputReader,
  Processes,
  ProcessIdentity,
  ProcessStat,
  SingleLook,
  StartOrder,
} from "../ports/processes.ts";
import { execTrouble, withExecStep } from "./exec-step.ts";
import { headOf } from "./head-of.ts";
import { bootId, ownIdentity, pidSpace, psRows, PS_OPTIONS, statOf } from "./process-identity.ts";

const IS_LINUX = process.platform === "linux";
const PRIVATE_FILE = 0o600;

/** Linux lets a program begin with 6 MiB of arguments and environment; a process may later point to any of its memory and call that its environment. */
const MOST_ENVIRONMENT_BYTES = 8 * 1024 * 1024;

/** Our own process is left out: it is never looked for. */
const singleLook: SingleLook = {
  pids: () =>
    readdirSync("/proc").flatMap((name) =>
      /^\d+$/.test(name) && Number(name) !== process.pid ? [Number(name)] : [],
    ),
  environment: (pid) => {
    try {
      return headOf(`/proc/${pid}/environ`, MOST_ENVIRONMENT_BYTES);
    } catch {
      // It has ended, or it is another user's and so none of ours.
      return undefined;
    }
  },
};

export const nodeProcesses: Processes = {
  bootId,
  space: pidSpace,
  own: ownIdentity,
  stat: statOf,
  all: (notBefore) => (IS_LINUX ? linuxRows(notBefore) : psRows(["-A"])),
  marked: (mark, among, notBefore) => {
    if (!IS_LINUX) return markedByPs(mark);
    const entry = Buffer.from(`${mark}\0`);
    const candidates = [...youngerThan(notBefore, among).keys()];
    return new Set(
      candidates.filter((pid) => singleLook.environment(pid)?.includes(entry) === true),
    );
  },
  single: IS_LINUX ? singleLook : undefined,
  signal: (pid, signal) => sent(pid, signal),
  signalGroup: (pgid, signal) => sent(-pgid, signal),
  start,
  cpuMs: () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1_000;
  },
};

/**
 * No pid comes round again within so many starts: the kernel numbers in a circle of `kernel.pid_max`, and passes over those in use. Where the circle is smaller
 * than the usual one of 32,768, or the kernel does not say how many it has started, nothing is remembered.
 */
const MEMORY_STARTS = 1_000;
const LEAST_PIDS = 32_768;
let hasManyPids: boolean | undefined;
let seen = new Map<number, { readonly started: number; readonly atCount: number }>();

/** Processes and threads since boot. */
function startCount(): number {
  try {
    hasManyPids ??= Number(readFileSync("/proc/sys/kernel/pid_max", "latin1")) >= LEAST_PIDS;
    // A sandbox may say 0 for ever.
    const count = /^processes ([1-9]\d*)$/m.exec(readFileSync("/proc/stat", "latin1"))?.[1];
    return hasManyPids && count !== undefined ? Number(count) : NaN;
  } catch {
    return NaN;
  }
}

/** Most processes of a machine are older than any launch that ends: a look skips those that a former one has found to be too old. */
function linuxRows(notBefore: ProcessIdentity | undefined): readonly ProcessStat[] {
  const atCount = startCount();
  const isOfThisBoot = notBefore?.bootId === bootId();
  const sinceTicks = isOfThisBoot ? Number(notBefore?.started) : -Infinity;
  const before = seen;
  seen = new Map();
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    const pid = Number(name);
    const known = before.get(pid);
    if (
      known !== undefined &&
      atCount - known.atCount < MEMORY_STARTS &&
      known.started < sinceTicks
    ) {
      seen.set(pid, known);
      return [];
    }
    const stat = statOf(pid);
    if (stat === undefined) return [];
    seen.set(pid, { started: Number(stat.started), atCount });
    return [stat];
  });
}

function sent(target: number, signal: string): string | undefined {
  try {
    process.kill(target, signal);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

function start(order: StartOrder): number | undefined {
  const { cwd, env, output, input, joins, isLeftBehind = false } = order;
  const trouble = joins && execTrouble(order.command[0] ?? "", { cwd, path: env["PATH"] });
  if (trouble !== undefined) {
    queueMicrotask(() => order.onNotStarted(trouble));
    return undefined;
  }
  const command = joins === undefined ? order.command : withExecStep(joins, order.command);
  const [file = "", ...args] = command;
  const options = { cwd, env, detached: true };
  const stdin = input === undefined ? "ignore" : "pipe";
  if (typeof output !== "string") {
    const child = spawn(file, args, { ...options, stdio: [stdin, "pipe", "pipe"] });
    give(child.stdin, input);
    if (child.pid !== undefined && child.stdout !== null && child.stderr !== null) {
      readStream(child.stdout, "out", output);
      readStream(child.stderr, "err", output);
    }
    return followed(child, order);
  }
  const log = openSync(output, "a", PRIVATE_FILE);
  try {
    const child = spawn(file, args, { ...options, stdio: [stdin, log, log] });
    give(child.stdin, input);
    if (isLeftBehind) child.unref();
    return followed(child, order);
  } finally {
    closeSync(log);
  }
}

/** A process that ends before it has read all is no trouble of ours. */
function give(stdin: Writable | null, input: string | undefined): void {
  stdin?.on("error", () => undefined);
  stdin?.end(input);
}

function followed(
  child: ReturnType<typeof spawn>,
  { onEnd, onNotStarted }: StartOrder,
): number | undefined {
  if (child.pid === undefined) {
    child.once("error", onNotStarted);
    return undefined;
  }
  child.on("error", () => undefined);
  child.once("exit", (code, signal) =>
    onEnd(signal === null ? { exitCode: code ?? 0 } : { signal }),
  );
  return child.pid;
}

function readStream(stream: Readable, name: "out" | "err", reader: OutputReader): void {
  stream.on("data", (bytes: Buffer) => reader.onOutput(name, bytes));
  stream.on("error", () => undefined);
  stream.once("close", () => reader.onClosed(name));
}

/** A process that ran before the shim cannot have its mark from it; on a busy machine that saves reading most environments. */
function youngerThan(
  first: ProcessIdentity | undefined,
  rows: ReadonlyMap<number, ProcessStat>,
): ReadonlyMap<number, ProcessStat> {
  if (first === undefined || first.bootId !== bootId()) return rows;
  // Linux gives start times as ticks since the boot.
  const sinceTicks = Number(first.started);
  return new Map([...rows].filter(([, { started }]) => Number(started) >= sinceTicks));
}

function markedByPs(mark: string): ReadonlySet<number> {
  let text: string;
  try {
    text = execFileSync("ps", ["-A", "-E", "-ww", "-o", "pid=,command="], PS_OPTIONS);
  } catch {
    return new Set();
  }
  const lines = text.split("\n").filter((line) => `${line} `.includes(` ${mark} `));
  return new Set(lines.map((line) => Number.parseInt(line.trim(), 10)));
}
