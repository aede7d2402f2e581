/**
 * @file Starts a worker as a process that outlives this command and its terminal, and waits until it says that it is ready.
 *
 * It has a session of its own (no hang-up, no Ctrl-C of the terminal), no standard input, and a log file for what it says.
 * The one line to this command is an IPC channel that the worker closes with the word `ready`; if it ends before, the
 * last lines of its log are the reason.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { identityOf } from "../../activities/agent/process-identity.ts";
import { OrbweaverError } from "../../domain/failure.ts";
import type { Environment } from "../../workers/server/environment.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import type { UpWorker } from "../../workers/state.ts";

export interface WorkerCommand {
  readonly role: UpWorker["role"];
  readonly cluster?: string;
  readonly host?: string;
  /** The words after `orbweaver worker`, `orbweaver codec-server` or `orbweaver supervise`. */
  readonly args: readonly string[];
  readonly env: Environment;
  readonly logFile: string;
}

const READY_WITHIN_MS = 60_000;
const QUOTED_LINES = 8;

export interface StartedWorker {
  /** Known at once, so that it can be noted before anything goes wrong. */
  readonly worker: UpWorker;
  /** Resolves when the worker says that it is ready; fails when it ends before, or takes too long. */
  readonly ready: Promise<void>;
}

export function startWorker(command: WorkerCommand): StartedWorker {
  const { role, cluster, host, args, env, logFile } = command;
  mkdirSync(dirname(logFile), { recursive: true });
  const log = openSync(logFile, "a");
  const logStart = statSync(logFile).size;
  const child = spawn(process.execPath, [mainFile(), verbOf(role), ...args], {
    detached: true,
    env: { ...env },
    stdio: ["ignore", log, log, "ipc"],
  });
  closeSync(log);
  const identity = child.pid === undefined ? undefined : identityOf(child.pid);
  if (identity === undefined) {
    throw new OrbweaverError("NOT_ALLOWED", `the ${nameOf(command)} cannot be started`);
  }
  const ready = saysReady(child).catch((error: unknown) => {
    const said = readFileSync(logFile).subarray(logStart).toString("utf8").trimEnd();
    const lines = said.split("\n").slice(-QUOTED_LINES).join("\n");
    const what = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `the ${nameOf(command)} ${what}; the last lines of ${logFile}:\n${lines}`,
    );
  });
  const place = { ...(cluster !== undefined && { cluster }), ...(host !== undefined && { host }) };
  return { worker: { ...identity, role, logFile, ...place }, ready };
}

async function saysReady(child: ChildProcess): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const clock = setTimeout(() => {
      child.kill("SIGKILL");
      reject(new Error(`was not ready within ${String(READY_WITHIN_MS / 1000)} s`));
    }, READY_WITHIN_MS);
    child.once("message", () => {
      clearTimeout(clock);
      resolve();
    });
    child.once("exit", (code, signal) => {
      clearTimeout(clock);
      reject(new Error(`ended before it was ready (${signal ?? `exit code ${String(code)}`})`));
    });
  });
  child.unref();
}

function verbOf(role: UpWorker["role"]): string {
  if (role === "supervisor") return "supervise";
  return role === "codec" ? "codec-server" : "worker";
}

/** `fleet worker`, `agent of eu-1`, `codec server`. */
export function nameOf({
  role,
  cluster,
  host,
}: Pick<UpWorker, "role" | "cluster" | "host">): string {
  if (role === "codec") return "codec server";
  if (role === "supervisor") return "supervisor of the workers";
  return role === "agent" ? `agent of ${host ?? cluster ?? "this host"}` : `${role} worker`;
}

/** The compiled program: Node 20 does not run the sources. */
function mainFile(): string {
  return join(packageRoot(), "dist", "cli", "main.js");
}
