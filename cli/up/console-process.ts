/**
 * @file The console that `up` starts beside a fleet, on the port that it had before where that is free.
 *
 * Nothing needs it: where it cannot start, `up` says so and goes on.
 */

import { becomesFree, drawFreePort, LOOPBACK } from "../../workers/server/ports.ts";
import { historyFileIn } from "../../workers/state.ts";
import type { CommandContext } from "../command/command-context.ts";
import type { FleetNotes } from "./fleet-notes.ts";
import { createStarter, type ProcessSurroundings } from "./processes.ts";
import { portOf } from "./server.ts";
import { endAll } from "./take-down.ts";

/** Its address; undefined where it could not start. */
export async function provideConsole(
  context: CommandContext,
  notes: FleetNotes,
  at: ProcessSurroundings,
): Promise<string | undefined> {
  const { workers, consoleUrl: former, fleetFile, consoleFile } = notes.state();
  const running = workers.filter(({ role }) => role === "console");
  if (former !== undefined && running.length > 0 && consoleFile === fleetFile) return former;
  // One that tells those whom another file names.
  await endAll(context, running);
  notes.change({ workers: notes.state().workers.filter((worker) => !running.includes(worker)) });
  const port = await freePort(portOf(former));
  const history = historyFileIn(context.io.env, at.fleet);
  const args = ["--port", String(port), "--fleet", at.fleet, "--history", history];
  args.push("--notify", fleetFile, "--collect");
  try {
    await createStarter(context, notes, at).ensure({
      role: "console",
      args: [...args, ...at.surroundings.args],
    });
  } catch (error) {
    context.say(`there is no console: ${error instanceof Error ? error.message : String(error)}`);
    return undefined;
  }
  const consoleUrl = `http://${LOOPBACK}:${String(port)}`;
  notes.change({ consoleUrl, consoleFile: fleetFile });
  await notes.write();
  return consoleUrl;
}

/** The former one where it is free. */
export const freePort = async (former: number | undefined): Promise<number> =>
  former !== undefined && (await becomesFree(former, 0)) ? former : await drawFreePort();
