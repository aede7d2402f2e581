/**
 * @file The fleet of a machine that has GPUs, for `up` without a file: written once into the fleet's state folder, where it may be read and changed.
 */

import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { driverView } from "../../agent/system/gpu-driver.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { localGpus } from "../command/local-gpus.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { fleetText, readable, TOPOLOGY } from "../command/own-fleet.ts";
import type { CommandContext } from "../command/command-context.ts";

/** As `orbweaver init` has them. */
const PLACE = Object.freeze({ site: "here", jurisdiction: "local" });

/** Undefined on a machine without an NVIDIA driver, or with GPUs that a user has to name. */
export async function ownFleetFile(
  context: CommandContext,
  stateDir: string,
): Promise<string | undefined> {
  const gpus = await ownGpus(context);
  if (gpus === undefined) return undefined;
  const path = join(stateDir, "own-fleet", "fleet.yaml");
  if (existsSync(path)) return path;
  mkdirSync(dirname(path), { recursive: true });
  if (gpus.topology !== undefined) writeFileSync(join(dirname(path), TOPOLOGY), gpus.topology);
  writeFileSync(path, fleetText(gpus, PLACE));
  context.say(`${gpus.count} × ${gpus.device} of this machine: ${path}`);
  return path;
}

/** Undefined, with a word, where nobody but the user can say what they are: of two types, or of one that nobody knows. */
async function ownGpus(context: CommandContext): Promise<ReturnType<typeof readable>> {
  try {
    return readable(await localGpus(driverView(context.io.env, packageRoot())), PLACE, (problem) =>
      context.say(problem),
    );
  } catch (error) {
    if (!(error instanceof OrbweaverError)) throw error;
    context.say(
      `the GPUs of this machine are left out, and the fleet is simulated: ${error.message} \`orbweaver init\` takes --type; then name its file to \`orbweaver up\`.`,
    );
    return undefined;
  }
}
