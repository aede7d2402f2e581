/**
 * @file Whether the disks with the hosts' state have room for a launch: one that has less refuses each launch by name, and so would cost each job a run.
 *
 * Once a disk is full it must have twice as much as a launch needs to be sound again, so that a host does not come and go with each line of output.
 */

import type { Files } from "../ports/files.ts";
import type { CheckResult } from "./health-checks.ts";

/** How the reason of a host with a full disk begins. */
export const DISK_FULL = "disk full";
/** With less room for output and checkpoints a host starts nothing. */
export const MIN_FREE_BYTES = 64 * 2 ** 20;
/** Between two looks: one call of the system for each folder. */
export const DISK_CHECK_EVERY_MS = 10_000;

const mebibytes = (bytes: number): number => Math.floor(bytes / 2 ** 20);

/** `dirs`: one for each host. `minFreeBytes`: with less a host refuses launches. */
export function createDiskCheck({
  files,
  dirs,
  minFreeBytes,
}: {
  readonly files: Pick<Files, "freeBytes">;
  readonly dirs: readonly string[];
  readonly minFreeBytes: number;
}): () => CheckResult {
  let neededBytes = minFreeBytes;
  return () => {
    for (const dir of dirs) {
      const free = freeIn(files, dir);
      if (typeof free === "number" && free >= neededBytes) continue;
      neededBytes = 2 * minFreeBytes;
      const found =
        typeof free === "number"
          ? `${mebibytes(free)} MiB are`
          : `nobody knows how much is (${free})`;
      const why = `${found} free for ${dir}, and launches need ${mebibytes(minFreeBytes)} MiB; it returns with ${mebibytes(neededBytes)}`;
      return { kind: "failed", why };
    }
    neededBytes = minFreeBytes;
    return { kind: "passed" };
  };
}

/** Or why it cannot be told: the folder was removed, or its disk is gone. A launch there would fail, too. */
function freeIn(files: Pick<Files, "freeBytes">, dir: string): number | string {
  try {
    return files.freeBytes(dir);
  } catch (error) {
    return String(error);
  }
}
