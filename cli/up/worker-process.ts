/**
 * @file Starts a worker as a process that outlives this command and its terminal, and waits until it is ready.
 *
 * The worker has a session of its own (no hang-up, no Ctrl-C of the terminal), no standard input, and a log file. It sends the
 * message `ready` over an IPC channel and closes it; when it ends before that, the error quotes the last lines of its log.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { PRIVATE_DIR, PRIVATE_FILE } from "../../access/private-files.ts";
import { identityOf } from "../../agent/system/process-identity.ts";
import { CONSOLE_PROCESS } from "../../console/heap-growth.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { Environment } from "../../workers/server/environment.ts";
import { commandLine } from "../../workers/server/package-root.ts";
import type { UpWorker } from "../../workers/state.ts";

export interface WorkerCommand {
  readonly role: UpWorker["role"];
  readonly cluster?: string;
  readonly host?: string;
  /** The arguments of `orbweaver worker`, `codec-server`, `console`, `api` or `supervise`. */
  readonly args: readonly string[];
  readonly env: Environment;
  readonly logFile: string;
}

/** Starting takes a second or two on a quiet machine; one with ten times its work has taken most of a minute. */
const READY_WITHIN_MS = 180_000;
const QUOTED_LINES = 8;

const USUAL_PROCESS = { flags: [], variables: {} };

export interface StartedWorker {
  /** Known at once, so that it can be recorded before anything fails. */
  readonly worker: UpWorker;
  /** Resolves when the worker is ready; fails when it ends before, or takes too long. */
  readonly ready: Promise<void>;
}

export function startWorker(command: WorkerCommand): StartedWorker {
  const { role, cluster, host, args, env, logFile } = command;
  mkdirSync(dirname(logFile), { recursive: true, mode: PRIVATE_DIR });
  const log = openSync(logFile, "a", PRIVATE_FILE);
  const logStart = statSync(logFile).size;
  const { flags, variables } = role === "console" ? CONSOLE_PROCESS : USUAL_PROCESS;
  const child = spawn(process.execPath, [...flags, commandLine(), verbOf(role), ...args], {
    detached: true,
    env: { ...variables, ...env },
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

/** `up` waits for this message from a process that it has started; nobody else listens. */
export function tellReady(): void {
  if (process.send !== undefined) process.send({ kind: "ready" }, () => process.disconnect());
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
  if (role === "console" || role === "api") return role;
  return role === "codec" ? "codec-server" : "worker";
}

/** `fleet worker`, `agent of eu-1`, `codec server`. */
export function nameOf({
  role,
  cluster,
  host,
}: Pick<UpWorker, "role" | "cluster" | "host">): string {
  if (role === "codec") return "codec server";
  if (role === "console") return "console";
  if (role === "api") return "submit service";
  if (role === "supervisor") return "supervisor of the workers";
  return role === "agent" ? `agent of ${host ?? cluster ?? "this host"}` : `${role} worker`;
}
