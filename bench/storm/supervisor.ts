/**
 * @file Keeps one process of the product running: after every end it is started again, after a pause.
 *
 * The storm kills and freezes through the supervisor, so that it knows which ends it caused. Everything that the process says
 * goes to its log file.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import type { Environment } from "../../workers/server/environment.ts";

export interface Supervisor {
  readonly name: string;
  readonly pid: () => number | undefined;
  readonly isFrozen: () => boolean;
  /** As `kill -9` does; resolves when it is gone. */
  readonly kill: () => Promise<void>;
  /** As an operator stops it: it ends what it does, within a bound; resolves when it is gone. */
  readonly stop: () => Promise<void>;
  readonly freeze: () => void;
  readonly thaw: () => void;
  /** Whether the process that runs then has said that it is ready, within the time. */
  readonly ready: (withinMs: number) => Promise<boolean>;
  /** Ends of processes that the storm had not killed. */
  readonly ownEnds: () => readonly string[];
  /** Ends the process and does not start it again. */
  readonly close: () => Promise<void>;
}

interface SupervisorSetting {
  readonly name: string;
  /** The compiled program and its arguments. */
  readonly argv: readonly string[];
  readonly env: Environment;
  readonly logFile: string;
  /** How long until it is started again. */
  readonly pauseMs: () => number;
}

const READY_LOOK_MS = 50;
const STOP_WITHIN_MS = 30_000;

export function keep({ name, argv, env, logFile, pauseMs }: SupervisorSetting): Supervisor {
  const ownEnds: string[] = [];
  let child: ChildProcess | undefined;
  let isReady = false;
  let isFrozen = false;
  let isKilled = false;
  let isClosing = false;

  function start(): void {
    if (isClosing) return;
    const log = openSync(logFile, "a");
    const started = spawn(process.execPath, [...argv], {
      env: { ...env },
      stdio: ["ignore", log, log, "ipc"],
    });
    closeSync(log);
    child = started;
    isReady = false;
    isKilled = false;
    isFrozen = false;
    started.on("error", () => undefined);
    started.once("message", () => {
      if (child === started) isReady = true;
    });
    started.once("exit", (code, signal) => {
      if (!isKilled && !isClosing) {
        ownEnds.push(
          `${new Date().toISOString()} ${name} ended (${signal ?? String(code)}), see ${logFile}`,
        );
      }
      child = undefined;
      isReady = false;
      if (!isClosing) setTimeout(start, pauseMs());
    });
  }

  const gone = async (by: "SIGKILL" | "SIGTERM"): Promise<void> => {
    const dying = child;
    if (dying === undefined) return;
    isKilled = true;
    const exited = new Promise((resolve) => dying.once("exit", resolve));
    dying.kill(by);
    const insist = setTimeout(() => dying.kill("SIGKILL"), STOP_WITHIN_MS);
    await exited;
    clearTimeout(insist);
  };

  process.once("exit", () => child?.kill("SIGKILL"));
  start();
  return {
    name,
    pid: () => child?.pid,
    isFrozen: () => isFrozen,
    kill: () => gone("SIGKILL"),
    stop: () => gone("SIGTERM"),
    freeze: () => {
      isFrozen = child?.kill("SIGSTOP") ?? false;
    },
    thaw: () => {
      child?.kill("SIGCONT");
      isFrozen = false;
    },
    ready: async (withinMs) => {
      const untilMs = performance.now() + withinMs;
      while (!isReady && !isClosing && performance.now() < untilMs) {
        await new Promise((resolve) => setTimeout(resolve, READY_LOOK_MS));
      }
      return isReady;
    },
    ownEnds: () => ownEnds,
    close: async () => {
      isClosing = true;
      await gone("SIGKILL");
    },
  };
}
