/**
 * @file Where a model service of a run says that it answers: the file that ORBWEAVER_SERVING_FILE names, beside what a run measures.
 *
 * Its writer is a job, which may put anything in its place; what does not look like ours says nothing.
 */

import { join } from "node:path";
import { z } from "zod";
import type { ServedFact } from "../agent-contract.ts";
import { bandwidthDir, readEnd } from "./bandwidth-file.ts";
import { watchFolder } from "./folder-watch.ts";

/** Where the system does not tell of new files. */
const LOOK_MS = 2_000;

export const servingFile = (launchDir: string): string =>
  join(bandwidthDir(launchDir), "serving.json");

const said = z.object({ url: z.string().max(300), line: z.string().max(300) });

/** Undefined until the service answers requests. */
export function readServing(launchDir: string): ServedFact | undefined {
  const text = readEnd(servingFile(launchDir));
  if (text === undefined) return undefined;
  try {
    return said.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

/** Resolves when the service answers requests; undefined when the signal comes first. */
export async function untilServing(
  launchDir: string,
  signal: AbortSignal,
): Promise<ServedFact | undefined> {
  const folder = watchFolder(bandwidthDir(launchDir));
  try {
    while (!signal.aborted) {
      const served = readServing(launchDir);
      if (served !== undefined) return served;
      await folder.changed(LOOK_MS, signal);
    }
    return undefined;
  } finally {
    folder.close();
  }
}
