/**
 * @file The submit service that `up` starts beside a fleet whose file says who may do what (`access:`). It follows changes of that file by itself.
 *
 * With issuers of tokens in the file it answers on a port of this machine, too.
 */

import type { Fleet } from "../../domain/fleet/fleet.ts";
import type { CommandContext } from "../command/command-context.ts";
import type { FleetNotes } from "./fleet-notes.ts";
import { freePort } from "./console-process.ts";
import { createStarter, type ProcessSettings, type ProcessSurroundings } from "./processes.ts";
import { portOf } from "./server.ts";

export interface ApiPlace {
  /** Where it answers tokens; absent: nowhere. */
  readonly url?: string;
}

/** Undefined where nobody is to be admitted, or where it could not start. */
export async function provideApi(
  context: CommandContext,
  notes: FleetNotes,
  { access, ...at }: ProcessSurroundings & Pick<Fleet, "access">,
): Promise<ApiPlace | undefined> {
  if (access === undefined) return undefined;
  const { workers, apiUrl: former, fleetFile } = notes.state();
  if (workers.some(({ role }) => role === "api"))
    return former === undefined ? {} : { url: former };
  const hasTokens = (access.issuers ?? []).length > 0;
  const port = hasTokens ? await freePort(portOf(former)) : undefined;
  const settings: ProcessSettings = {
    role: "api",
    args: [
      ...["--file", fleetFile, "--fleet", at.fleet],
      ...(port === undefined ? [] : ["--port", String(port)]),
      ...at.surroundings.args,
    ],
  };
  try {
    await createStarter(context, notes, at).ensure(settings);
  } catch (error) {
    context.say(
      `there is no submit service: ${error instanceof Error ? error.message : String(error)}`,
    );
    return undefined;
  }
  if (port === undefined) return {};
  const apiUrl = `http://127.0.0.1:${String(port)}`;
  notes.change({ apiUrl });
  await notes.write();
  return { url: apiUrl };
}
