/**
 * @file Tells the fleet when the runs of this agent last completed a checkpoint, so that victims are chosen by the work that they would lose.
 *
 * One word for all runs of the agent, at most every `everyMs`, and only of what is newer than what the fleet has heard: an agent whose
 * runs write no checkpoints says nothing, and a thousand runs that write one a second cost no more than one that does. Of a gang the
 * host of rank 0 tells. What is not heard is told again the next time; of a run that is over nobody asks any more. Batches of array
 * tasks are left out: nobody evicts them.
 * Cost: one folder read for each running gang and look.
 */

import type { LeaseId } from "../../domain/ids.ts";
import type { InboxEntry } from "../../scheduling/ledger.ts";
import { abortablePause } from "./abortable-pause.ts";
import type { AgentHost } from "./agent-host.ts";
import { completeIn, tokenDir } from "./checkpoints.ts";
import { phaseOf, type LocalRun } from "./local-run.ts";
import { checkpointDirOf } from "./run-end.ts";

export interface CheckpointMarkOf {
  readonly lease: LeaseId;
  readonly atMs: number;
}

export interface CheckpointReporting {
  readonly hosts: Iterable<AgentHost>;
  /** Brings an entry to the fleet, or fails. */
  readonly tellFleet: (entry: InboxEntry) => Promise<void>;
  readonly closing: AbortSignal;
  readonly everyMs?: number;
}

const EVERY_MS = 30_000;
/** In one word, well below what an inbox takes; the others follow with the next. */
const MAX_MARKS = 1_000;

/** Returns when the agent ends. */
export async function reportCheckpoints({
  hosts,
  tellFleet,
  closing,
  everyMs = EVERY_MS,
}: CheckpointReporting): Promise<void> {
  const told = new Map<LeaseId, number>();
  const all = [...hosts];
  while (!closing.aborted) {
    await abortablePause(everyMs, closing);
    if (closing.aborted) return;
    const newest = newestMarks(all);
    const running = new Set(newest.map(({ lease }) => lease));
    for (const lease of told.keys()) if (!running.has(lease)) told.delete(lease);
    const marks = newest
      .filter(({ lease, atMs }) => atMs > (told.get(lease) ?? 0))
      .slice(0, MAX_MARKS);
    if (marks.length === 0) continue;
    try {
      await tellFleet({ kind: "checkpointed", marks });
      for (const { lease, atMs } of marks) told.set(lease, atMs);
    } catch {
      // No fleet, or no way to it: what it missed is told with the next word.
    }
  }
}

/** The newest complete checkpoint of each run whose rank 0 is here, if it has written one. */
export function newestMarks(hosts: readonly AgentHost[]): readonly CheckpointMarkOf[] {
  return hosts.flatMap((host) =>
    [...host.open.values()].flatMap((run) => {
      const newest = newestOf(host, run);
      return newest === undefined ? [] : [newest];
    }),
  );
}

function newestOf(host: AgentHost, run: LocalRun): CheckpointMarkOf | undefined {
  const order = run.stored?.order;
  if (order === undefined || order.taskBatch !== undefined) return undefined;
  if (order.gang[0]?.host !== host.id || phaseOf(run.files).kind !== "running") return undefined;
  const mark = completeIn(tokenDir(checkpointDirOf(host, run), order.token)).at(-1);
  return mark === undefined ? undefined : { lease: run.leaseId, atMs: mark.atMs };
}
