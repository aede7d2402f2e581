/**
 * @file The submit service of the fleet that `up` has started here, for verbs that need one: it runs, or is started by the first of them.
 *
 * A fleet of one user has none until then. `down` ends it with the other processes.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";
import { userName } from "../../access/own-identity.ts";
import { isAlive } from "../../agent/system/process-identity.ts";
import { socketIn } from "../../api/sockets.ts";
import type { ServiceAddress } from "../../client/service-client.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { fleetStateDir, readUpState } from "../../workers/state.ts";
import type { CommandContext } from "../command/command-context.ts";
import { connectionFlags, type ConnectionOptionValues } from "../command/connection-options.ts";
import { fleetNamed } from "../command/fleet-name.ts";
import { configuredService } from "../command/service-session.ts";
import { connectionFor } from "../command/session.ts";
import { openNotes } from "./fleet-notes.ts";
import { oneAtATime } from "./one-at-a-time.ts";
import { createStarter } from "./processes.ts";
import { workerSurroundings } from "./worker-environment.ts";

/** The service that flags or environment name, else the one of the fleet on this machine. Throws NO_CONNECTION where there is none to start. */
export async function serviceFor(
  context: CommandContext,
  values: ConnectionOptionValues,
): Promise<ServiceAddress> {
  const { io } = context;
  const configured = configuredService(values, io);
  if (configured !== undefined) return configured;
  const fleet = fleetNamed(values, io.env);
  const stateDir = fleetStateDir(io.env, fleet);
  const socket = socketIn(join(stateDir, "api"), userName());
  const isServed = async (): Promise<boolean> => {
    const workers = (await readUpState(stateDir))?.workers ?? [];
    return existsSync(socket) && workers.some((each) => each.role === "api" && isAlive(each));
  };
  if (!(await isServed()))
    await oneAtATime(context, stateDir, async () => {
      if (!(await isServed())) await startOwn(context, { fleet, stateDir, values });
    });
  return { socket };
}

async function startOwn(
  context: CommandContext,
  {
    fleet,
    stateDir,
    values,
  }: {
    readonly fleet: string;
    readonly stateDir: string;
    readonly values: ConnectionOptionValues;
  },
): Promise<void> {
  const { io } = context;
  const state = await readUpState(stateDir);
  if (state === undefined)
    throw new OrbweaverError(
      "NO_CONNECTION",
      `sessions, schedules and --sync go over a submit service, and fleet ${fleet} was not started here. Name its service (--api, ORBWEAVER_API), or start one with \`orbweaver api\`.`,
    );
  const notes = openNotes(stateDir, { ...state, workers: state.workers.filter(isAlive) });
  const connection = await connectionFor(values, io);
  const surroundings = workerSurroundings(connection, {
    ...{ flags: connectionFlags(values), env: io.env },
    keyFile: state.encryptionKeys,
  });
  const args = ["--file", state.fleetFile, "--fleet", fleet, ...surroundings.args];
  await createStarter({ ...context, say: () => undefined }, notes, {
    ...{ fleet, stateDir, surroundings },
  }).ensure({ role: "api", args });
}
