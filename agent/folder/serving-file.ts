/**
 * @file The address at which a model service of a run answers, from the file that ORBWEAVER_SERVING_FILE names.
 *
 * Its writer is a job, which may put anything in its place; a file of another form counts as no address.
 */

import { join } from "node:path";
import { z } from "zod";
import type { ServedFact } from "../../protocol/agent-contract.ts";
import { bandwidthDir, readEnd } from "./bandwidth-file.ts";
import type { Files } from "../ports/files.ts";
import type { System } from "../ports/system.ts";
import { watchFolder } from "./folder-watch.ts";

/** Between two looks when no notification comes. */
const LOOK_MS = 2_000;

export const servingFile = (launchDir: string): string =>
  join(bandwidthDir(launchDir), "serving.json");

const said = z.object({ url: z.string().max(300), line: z.string().max(300) });

/** Undefined until the service answers requests. */
export function readServing(files: Files, launchDir: string): ServedFact | undefined {
  const text = readEnd(files, servingFile(launchDir));
  if (text === undefined) return undefined;
  try {
    return said.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Resolves when the service answers requests; undefined when the signal comes first. */
export async function untilServing(
  system: System,
  launchDir: string,
  signal: AbortSignal,
): Promise<ServedFact | undefined> {
  const folder = watchFolder(system, bandwidthDir(launchDir));
  try {
    while (!signal.aborted) {
      const served = readServing(system.files, launchDir);
      if (served !== undefined) return served;
      await folder.changed(LOOK_MS, signal);
    }
    return undefined;
  } finally {
    folder.close();
  }
}
