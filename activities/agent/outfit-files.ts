/**
 * @file What was made for a run before its start, on this host: its files in a folder of the launch, its variables with that folder in them.
 *
 * Written before any process starts, each by rename: a launch that is prepared twice finds the same files.
 */

import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Outfit } from "../../domain/outfit.ts";
import { makeFolder } from "./state-files.ts";

const FOLDER_WORD = "{files}";

export const outfitDir = (launchDir: string): string => join(launchDir, "given");

export function writeOutfit({ files }: Outfit, launchDir: string): void {
  const dir = makeFolder(outfitDir(launchDir));
  for (const { name, text } of files) {
    const aside = join(dir, `.${name}.tmp`);
    writeFileSync(aside, text, { mode: 0o600 });
    renameSync(aside, join(dir, name));
  }
}

/** The variables as the processes on this host find them. */
export const outfitEnv = ({ env }: Outfit, launchDir: string): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).map(([name, value]) => [
      name,
      value.replaceAll(FOLDER_WORD, outfitDir(launchDir)),
    ]),
  );
