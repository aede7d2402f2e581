/**
 * @file Where this host has the plugin that NCCL is to load, and which build of it.
 *
 * A rank whose NCCL lacks the plugin chooses by itself while the others follow a policy, and then the job hangs. So every host of a gang
 * says which build it has before the start, and the plugin is named to the processes only where all have the same (`gang-barrier.ts`).
 * ORBWEAVER_TUNER_PLUGIN in the agent's environment names another place than the usual ones. Cost: a file of 25 KB is read and hashed.
 */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

export interface TunerPlugin {
  readonly path: string;
  /** The first half of its SHA-256, as hexadecimal digits. */
  readonly digest: string;
}

const NAME = "libnccl-tuner-orbweaver.so";
const PLACES = [`/opt/orbweaver/lib/${NAME}`, `/usr/local/lib/${NAME}`];

export function findTunerPlugin(
  env: Readonly<Record<string, string | undefined>>,
): TunerPlugin | undefined {
  const named = env["ORBWEAVER_TUNER_PLUGIN"];
  const places = named === undefined ? [...PLACES, ownBuild()] : [named];
  for (const path of places) {
    try {
      const digest = createHash("sha256").update(readFileSync(path)).digest("hex").slice(0, 32);
      return { path, digest };
    } catch {
      // Not there, or not for us to read: the next place.
    }
  }
  return undefined;
}

/** What `make` in the package's own folder `plugin/` has built. */
function ownBuild(): string {
  const root = import.meta.url.endsWith(".ts") ? "../../" : "../../../";
  return fileURLToPath(new URL(`${root}plugin/build/${NAME}`, import.meta.url));
}
