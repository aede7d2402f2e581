/**
 * @file Stops the processes that `up` started: first agents, then the control plane, then the server; each with TERM, then
 * KILL.
 *
 * Processes of jobs have shims of their own and continue; the next `up` adopts them. The state folder stays.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { isAlive, type ProcessIdentity } from "../../agent/system/process-identity.ts";
import { isolatedConnection, openClient, type OpenClient } from "../../workers/connection.ts";
import {
  readUpState,
  writeUpState,
  type UpServer,
  type UpState,
  type UpWorker,
} from "../../workers/state.ts";
import type { CommandContext } from "../command/command-context.ts";
import { stopOnDemand } from "./control-plane.ts";
import { livingServer } from "./own-server.ts";
import { nameOf } from "./worker-process.ts";
import { hasErrorCode } from "../../lib/error-code.ts";

const WORKER_PATIENCE_MS = 15_000;
const SERVER_PATIENCE_MS = 10_000;
const LOOK_EVERY_MS = 50;

export interface TakenDown {
  readonly workers: number;
  readonly hasStoppedServer: boolean;
}

export async function takeDown(context: CommandContext, stateDir: string): Promise<TakenDown> {
  const state = await readUpState(stateDir);
  const server = livingServer(stateDir, state);
  const running = (state?.workers ?? []).filter(isAlive);
  // Processes that start others end first.
  const starters = running.filter(({ role }) => role === "supervisor");
  const agents = running.filter(({ role }) => role === "agent");
  const others = running.filter(({ role }) => role !== "agent" && role !== "supervisor");
  await endAll(context, starters);
  const onDemand = await endOnDemand(context, stateDir, server);
  for (const group of [agents, others]) await endAll(context, group);
  if (server !== undefined) {
    await end(server, SERVER_PATIENCE_MS);
    context.say("temporal server: stopped");
  }
  // The server stays recorded, so the next one uses its database and its address.
  if (state !== undefined) await writeUpState(stateDir, restOf(state, server));
  return { workers: running.length + onDemand, hasStoppedServer: server !== undefined };
}

/** Ends workers with TERM, then KILL. */
export async function endAll(context: CommandContext, workers: readonly UpWorker[]): Promise<void> {
  await Promise.all(
    workers.map(async (worker) => {
      await end(worker, WORKER_PATIENCE_MS);
      context.say(`${nameOf(worker)}: stopped`);
    }),
  );
}

/**
 * Ends the workers on demand after their starter has been told to start no more. A server that does not answer will not start
 * workers either.
 */
async function endOnDemand(
  context: CommandContext,
  stateDir: string,
  server: UpServer | undefined,
): Promise<number> {
  let open: OpenClient | undefined;
  try {
    open = server && (await openClient(isolatedConnection(server)));
    return await stopOnDemand(stateDir, open?.client);
  } catch (error) {
    context.say(`the server could not be told to stop starting workers: ${String(error)}`);
    return await stopOnDemand(stateDir);
  } finally {
    await open?.close();
  }
}

function restOf(state: UpState, server: UpServer | undefined): UpState {
  return { ...state, ...(server !== undefined && { server }), workers: [] };
}

/** Sends TERM and, after a grace time, KILL; returns when the process has ended. */
async function end(process_: ProcessIdentity, patienceMs: number): Promise<void> {
  send(process_, "SIGTERM");
  const insistAtMs = performance.now() + patienceMs;
  let hasInsisted = false;
  while (isAlive(process_)) {
    if (!hasInsisted && performance.now() > insistAtMs) {
      send(process_, "SIGKILL");
      hasInsisted = true;
    }
    await sleep(LOOK_EVERY_MS);
  }
}

function send({ pid }: ProcessIdentity, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    // The process ended between the look and the signal.
    if (!hasErrorCode(error, "ESRCH")) throw error;
  }
}
