/**
 * @file Ends what `up` started here: agents first, then the control plane, then the server; each asked, then made to.
 *
 * Processes of jobs have shims of their own and run on; the next `up` takes them over. The state folder stays.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { isAlive, type ProcessIdentity } from "../../activities/agent/process-identity.ts";
import { isolatedConnection, openClient, type OpenClient } from "../../workers/connection.ts";
import {
  readUpState,
  writeUpState,
  type UpServer,
  type UpState,
  type UpWorker,
} from "../../workers/state.ts";
import type { Kit } from "../kit.ts";
import { stopOnDemand } from "./control-plane.ts";
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
  // What starts others goes first.
  const starters = running.filter(({ role }) => role === "supervisor");
  const agents = running.filter(({ role }) => role === "agent");
  const others = running.filter(({ role }) => role !== "agent" && role !== "supervisor");
  await endAll(kit, starters);
  const onDemand = await endOnDemand(kit, stateDir, server);
  for (const group of [agents, others]) await endAll(kit, group);
  if (server !== undefined) {
    await end(server, SERVER_PATIENCE_MS);
    kit.say("temporal server: stopped");
  }
  // What the server was stays noted: the next one takes its database and its address.
  if (state !== undefined) await writeUpState(stateDir, restOf(state, server));
  return { workers: running.length + onDemand, hasStoppedServer: server !== undefined };
}

/** Ends workers, each asked, then made to. */
export async function endAll(kit: Kit, workers: readonly UpWorker[]): Promise<void> {
  await Promise.all(
    workers.map(async (worker) => {
      await end(worker, WORKER_PATIENCE_MS);
      kit.say(`${nameOf(worker)}: stopped`);
    }),
  );
}

/** Takes the workers on demand from whoever starts them. A server that does not answer starts nothing that would stay either. */
async function endOnDemand(
  kit: Kit,
  stateDir: string,
  server: UpServer | undefined,
): Promise<number> {
  let open: OpenClient | undefined;
  try {
    open = server && (await openClient(isolatedConnection(server)));
    return await stopOnDemand(stateDir, open?.client);
  } catch (error) {
    kit.say(`the server was not told to start no more workers: ${String(error)}`);
    return await stopOnDemand(stateDir);
  } finally {
    await open?.close();
  }
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
