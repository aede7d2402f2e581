/**
 * @file Finds the plugin that NCCL is to load on this host, and which build it is.
 *
 * A rank whose NCCL lacks the plugin chooses by itself while the others follow a policy, and then the job hangs. So every host of a gang
 * names its build before the start, and the plugin is named to the processes only where all have the same (`gang-barrier.ts`).
 * ORBWEAVER_TUNER_PLUGIN in the agent's environment names another place than the usual ones. Cost: a file of 25 KB is read and hashed.
 */

import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import type { Files } from "../ports/files.ts";

export interface TunerPlugin {
  readonly path: string;
  /** The first half of its SHA-256, as hexadecimal digits. */
  readonly digest: string;
}

const NAME = "libnccl-tuner-orbweaver.so";
const PLACES = [`/opt/orbweaver/lib/${NAME}`, `/usr/local/lib/${NAME}`];

export function findTunerPlugin(
  env: Readonly<Record<string, string | undefined>>,
  files: Files,
): TunerPlugin | undefined {
  const named = env["ORBWEAVER_TUNER_PLUGIN"];
  const places = named === undefined ? [...PLACES, ownBuild()] : [named];
  for (const path of places) {
    const bytes = bytesOf(files, path);
    if (bytes === undefined) continue;
    return { path, digest: createHash("sha256").update(bytes).digest("hex").slice(0, 32) };
  }
  return undefined;
}

/** Undefined when there is no such file, or none that we may read. */
function bytesOf(files: Files, path: string): Buffer | undefined {
  try {
    return files.readRange(path, { position: 0, length: files.stat(path)?.sizeBytes ?? 0 });
  } catch {
    return undefined;
  }
}

/** The build that `make` in the package's own folder `plugin/` leaves. */
function ownBuild(): string {
  const root = import.meta.url.endsWith(".ts") ? "../../" : "../../../";
  return fileURLToPath(new URL(`${root}plugin/build/${NAME}`, import.meta.url));
}
