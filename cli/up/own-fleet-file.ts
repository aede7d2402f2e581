/**
 * @file The fleet of a machine that has GPUs, for `up` without a file: written once into the fleet's state folder, where it may be read and changed.
 */

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { localGpus } from "../command/local-gpus.ts";
import { fleetText, readable, TOPOLOGY } from "../command/own-fleet.ts";
import type { CommandContext } from "../command/command-context.ts";

/** As `orbweaver init` has them. */
const PLACE = Object.freeze({ site: "here", jurisdiction: "local" });

/** Undefined on a machine without an NVIDIA driver. Throws BAD_INPUT where the driver fails. */
export async function ownFleetFile(
  context: CommandContext,
  stateDir: string,
): Promise<string | undefined> {
  const gpus = readable(await localGpus(context.io.env["PATH"]), PLACE, (problem) =>
    context.say(problem),
  );
  if (gpus === undefined) return undefined;
  const path = join(stateDir, "own-fleet", "fleet.yaml");
  if (existsSync(path)) return path;
  mkdirSync(dirname(path), { recursive: true });
  if (gpus.topology !== undefined) writeFileSync(join(dirname(path), TOPOLOGY), gpus.topology);
  writeFileSync(path, fleetText(gpus, PLACE));
  context.say(`${gpus.count} × ${gpus.device} of this machine: ${path}`);
  return path;
}
