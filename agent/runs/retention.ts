/**
 * @file Removes the folders of launches that are long over, with their output: the oldest first, by age and by count.
 *
 * A launch that is not known to be over is never touched. Checkpoints are the job's and stay.
 */

import { basename, join } from "node:path";
import { byCodeUnit } from "../../domain/values/ids.ts";
import type { Files } from "../ports/files.ts";
import type { AgentHost } from "./agent-host.ts";
import { batchesDir } from "../folder/launch-files.ts";

export interface Retention {
  /** Output is kept this long after its run. */
  readonly keepMs: number;
  /** And of this many launches a host at most. */
  readonly keepCount: number;
}

interface EndedLaunch {
  readonly name: string;
  /** When it ended. */
  readonly atMs: number;
}

/** Those of a host's launches that are over which are to go. */
export function overdue<Launch extends EndedLaunch>(
  ended: readonly Launch[],
  { keepMs, keepCount }: Retention,
  nowMs: number,
): readonly Launch[] {
  return [...ended]
    .sort((a, b) => b.atMs - a.atMs || byCodeUnit(a.name, b.name))
    .filter(({ atMs }, index) => index >= keepCount || nowMs - atMs > keepMs);
}

/** The number of folders removed. Throws the system's first error once it has tried all: no user keeps those of others by filling an own one. */
export function removeOldLaunches(host: AgentHost, retention: Retention, nowMs: number): number {
  const { files } = host.system;
  const open = new Set(
    [...host.open.values()].map(({ leaseId }) => basename(host.layout.leaseDir(leaseId))),
  );
  const closed = files
    .list(host.layout.leases)
    .filter((name) => !open.has(name))
    .map((name) => ({ name, atMs: endedAtMs(files, join(host.layout.leases, name)) }));
  const old = overdue(closed, retention, nowMs);
  const errors: unknown[] = [];
  for (const { name } of old) {
    try {
      files.remove(join(host.layout.leases, name));
      host.newestBatch.delete(join(host.layout.leases, name));
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw errors[0];
  return old.length;
}

function endedAtMs(files: Files, dir: string): number {
  // A job array has a report in each of its batches; its newest batch was the last change of their folder.
  const found = files.stat(join(dir, "report.json")) ?? files.stat(batchesDir(dir));
  return (found ?? files.stat(dir))?.mtimeMs ?? 0;
}
