/**
 * @file Ends what `up` started here: agents first, then the control plane, then the server; each asked, then made to.
 *
 * Processes of jobs have shims of their own and run on; the next `up` takes them over. The state folder stays.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { isAlive, type ProcessIdentity } from "../../activities/agent/process-identity.ts";
import { readUpState, writeUpState, type UpServer, type UpState } from "../../workers/state.ts";
import type { Kit } from "../kit.ts";
import { livingServer } from "./own-server.ts";
import { nameOf } from "./worker-process.ts";

const WORKER_PATIENCE_MS = 15_000;
const SERVER_PATIENCE_MS = 10_000;
const LOOK_EVERY_MS = 50;

export interface TakenDown {
  readonly workers: number;
  readonly hasStoppedServer: boolean;
}

export async function takeDown(kit: Kit, stateDir: string): Promise<TakenDown> {
  const state = await readUpState(stateDir);
  const server = livingServer(stateDir, state);
  const running = (state?.workers ?? []).filter(isAlive);
  const agents = running.filter(({ role }) => role === "agent");
  const others = running.filter(({ role }) => role !== "agent");
  for (const group of [agents, others]) {
    await Promise.all(
      group.map(async (worker) => {
        await end(worker, WORKER_PATIENCE_MS);
        kit.say(`${nameOf(worker)}: stopped`);
      }),
    );
  }
  if (server !== undefined) {
    await end(server, SERVER_PATIENCE_MS);
    kit.say("temporal server: stopped");
  }
  // What the server was stays noted: the next one takes its database and its address.
  if (state !== undefined) await writeUpState(stateDir, restOf(state, server));
  return { workers: running.length, hasStoppedServer: server !== undefined };
}

function restOf(state: UpState, server: UpServer | undefined): UpState {
  return { ...state, ...(server !== undefined && { server }), workers: [] };
}

/** TERM, patience, KILL; returns when the process is gone. */
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
    // It ended between the look and the signal.
    if (!(error instanceof Error && "code" in error && error.code === "ESRCH")) throw error;
  }
}
