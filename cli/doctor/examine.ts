/** @file All that a doctor finds: on this machine, about the server, and in the fleet, as far as each can be reached. */

import { resolve } from "node:path";
import { OrbweaverClient } from "../../client/index.ts";
import { openClient } from "../../workers/connection.ts";
import { fleetStateDir, readUpState } from "../../workers/state.ts";
import type { CommandContext } from "../command/command-context.ts";
import type { ConnectionOptionValues } from "../command/connection-options.ts";
import { fleetNamed } from "../command/fleet-name.ts";
import { connectionFor } from "../command/session.ts";
import { problem, type Finding } from "./finding.ts";
import { fleetFindings } from "./fleet-checks.ts";
import { machineFindings } from "./machine-checks.ts";
import { serverFindings } from "./server-checks.ts";

export async function examine(
  context: CommandContext,
  values: ConnectionOptionValues & { readonly policy?: string },
): Promise<readonly Finding[]> {
  const { io } = context;
  const fleet = fleetNamed(values, io.env);
  const stateDir = fleetStateDir(io.env, fleet);
  let opened;
  let trouble: Finding | undefined;
  let isEncrypted = false;
  try {
    const connection = await connectionFor(values, io);
    ({ isEncrypted } = connection.workerPayloads);
    opened = { connection, ...(await openClient(connection)) };
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    trouble = problem("server", text, "orbweaver up, or correct the address");
  }
  const state = await readUpState(stateDir);
  const { policy } = values;
  const trust = policy === undefined ? state?.trust : { policy: resolve(io.cwd, policy) };
  const machine = await machineFindings({ env: io.env, stateDir, isEncrypted, trust });
  if (opened === undefined) return [...machine, ...(trouble ? [trouble] : [])];
  const { client: temporal, connection, close } = opened;
  try {
    const place = {
      ...{ fleet, temporal },
      client: new OrbweaverClient(temporal, { fleet }),
      state,
      nowMs: io.nowMs(),
    };
    return [
      ...machine,
      ...(await serverFindings(temporal, connection)),
      ...(await fleetFindings(place)),
    ];
  } finally {
    await close();
  }
}
