/**
 * @file The launch extras of a run on this host: their files in a folder of the launch, and their variables, which may name that folder.
 *
 * Each file is written by rename, so a launch that is prepared twice finds the same files.
 */

import { join } from "node:path";
import type { LaunchExtras } from "../../domain/lease/launch-extras.ts";
import type { Files } from "../ports/files.ts";

const FOLDER_WORD = "{files}";

export const extrasDir = (launchDir: string): string => join(launchDir, "given");

export function writeExtras(files: Files, extras: LaunchExtras, launchDir: string): void {
  const dir = extrasDir(launchDir);
  files.makeFolder(dir);
  for (const { name, text } of extras.files) {
    // In the launch's own folder, which stays the agent's: in `given` the job's user may have put a link there by now.
    const aside = files.asideOf(join(launchDir, `given-${name}`));
    files.write(aside, text);
    files.rename(aside, join(dir, name));
  }
}

/** The variables as the processes on this host find them. */
export const extrasEnv = ({ env }: LaunchExtras, launchDir: string): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).map(([name, value]) => [
      name,
      value.replaceAll(FOLDER_WORD, extrasDir(launchDir)),
    ]),
  );
