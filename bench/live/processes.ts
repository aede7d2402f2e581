/**
 * @file Starts processes of the build for the length of a bench, and ends them all, also when the bench fails.
 *
 * A process says that it is ready over its IPC channel, as the product's workers do; what it writes goes to a file, whose last
 * lines are the reason when it ends before.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../workers/server/package-root.ts";
import type { Environment } from "../../workers/server/environment.ts";

export interface Processes {
  /** `file` is a compiled module of the package, e.g. `cli/main.js`. Returns when the process says that it is ready. */
  start(name: string, file: string, args: readonly string[]): Promise<ChildProcess>;
  /** Those that run, by name. */
  pids(): ReadonlyMap<string, number>;
  /** Ends all of them, politely at first. */
  stop(): Promise<void>;
}

const READY_WITHIN_MS = 120_000;
const END_WITHIN_MS = 10_000;

export function openProcesses(logDir: string, env: Environment): Processes {
  mkdirSync(logDir, { recursive: true });
  const children = new Map<ChildProcess, string>();
  const killAll = (): void => {
    for (const child of children.keys()) child.kill("SIGKILL");
  };
  process.once("exit", killAll);
  return {
    start: async (name, file, args) => {
      const logFile = join(logDir, `${name}.log`);
      const log = openSync(logFile, "a");
      const child = spawn(process.execPath, [join(packageRoot(), "dist", file), ...args], {
        env: { ...env },
        stdio: ["ignore", log, log, "ipc"],
      });
      closeSync(log);
      children.set(child, name);
      child.once("exit", () => children.delete(child));
      await untilReady(name, child, logFile);
      return child;
    },
    pids: () => new Map([...children].flatMap(([{ pid }, name]) => (pid ? [[name, pid]] : []))),
    stop: async () => {
      const ends = [...children.keys()].map((child) => once(child, "exit"));
      for (const child of children.keys()) child.kill("SIGTERM");
      const insist = setTimeout(killAll, END_WITHIN_MS);
      await Promise.all(ends);
      clearTimeout(insist);
      process.off("exit", killAll);
    },
  };
}

/** Kills a process, and returns when it is gone. */
export async function endNow(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}

async function untilReady(name: string, child: ChildProcess, logFile: string): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const fail = (what: string): void => {
      const said = readFileSync(logFile, "utf8").trimEnd().split("\n").slice(-8).join("\n");
      reject(new Error(`${name} ${what}; it said last:\n${said}`));
    };
    const clock = setTimeout(() => {
      child.kill("SIGKILL");
      fail(`was not ready within ${String(READY_WITHIN_MS / 1000)} s`);
    }, READY_WITHIN_MS);
    child.once("message", () => {
      clearTimeout(clock);
      resolve();
    });
    child.once("exit", (code, signal) => {
      clearTimeout(clock);
      fail(`ended before it was ready (${signal ?? `exit code ${String(code)}`})`);
    });
  });
}
