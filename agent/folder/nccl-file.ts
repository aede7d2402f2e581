/**
 * @file Reads what NCCL has loaded of the collectives plugin on this host; the form is in docs/collectives-plugin.md.
 *
 * NCCL says nothing of a tuner that it does not know. So the plugin's library, which the job's reporter loads by itself, writes after some steps
 * whether NCCL has asked it. Its writer is a job, which may put anything in its place: what is no such text says nothing. Cost: a stat, and at
 * most 64 bytes.
 */

import { join } from "node:path";
import type { NcclPlugins } from "../../domain/bandwidth/collective-evidence.ts";
import { REWARDS_FILE } from "../../protocol/collective-files.ts";
import type { Files } from "../ports/files.ts";
import { extrasDir } from "./extra-files.ts";

const MAX_BYTES = 64;
const FORM = /^orbweaver-nccl 1\ntuner (yes|no)\nprofiler (yes|no)\n$/;

export const ncclFile = (launchDir: string): string =>
  join(extrasDir(launchDir), `${REWARDS_FILE}.nccl`);

/** Undefined while nothing is known. */
export function readNcclPlugins(files: Files, launchDir: string): NcclPlugins | undefined {
  const bytes = files.readUntrusted(ncclFile(launchDir), ({ sizeBytes }) =>
    sizeBytes > MAX_BYTES ? undefined : { position: 0, length: sizeBytes },
  );
  const [, tuner, profiler] = FORM.exec(bytes?.toString("latin1") ?? "") ?? [];
  if (tuner === undefined) return undefined;
  if (tuner === "no") return "none";
  return profiler === "yes" ? "both" : "tuner";
}
