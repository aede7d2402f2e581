/**
 * @file Reports to the fleet when the runs of this agent last completed a checkpoint, so that victims are chosen by the work that they would lose.
 *
 * One message for all runs of the agent, at most every `everyMs`, with the marks that are newer than those the fleet has: an agent whose
 * runs write no checkpoints sends none, and a thousand runs that write one a second cost no more than one that does. The host of rank 0
 * reports for a gang. A message that failed is sent again the next time; runs that are over are left out. So are batches of array
 * tasks: they are never evicted.
 * Cost: one folder read for each running gang and look.
 */

import type { LeaseId } from "../../domain/values/ids.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { Clock } from "../ports/clock.ts";
import type { AgentHost } from "../runs/agent-host.ts";
import { completeIn, tokenDir } from "../folder/checkpoints.ts";
import { phaseOf, type LocalRun } from "../runs/local-run.ts";
import { checkpointDirOf } from "../runs/run-end.ts";

export interface CheckpointMarkOf {
  readonly lease: LeaseId;
  readonly atMs: number;
}

export interface CheckpointReporting {
  readonly hosts: Iterable<AgentHost>;
  readonly clock: Clock;
  /** Brings an entry to the fleet, or fails. */
  readonly tellFleet: (entry: InboxEntry) => Promise<void>;
  readonly closing: AbortSignal;
  readonly everyMs?: number;
}

const EVERY_MS = 30_000;
/** In one message, well below the limit of an inbox; the others follow with the next. */
const MAX_MARKS = 1_000;

/** Returns when the agent ends. */
export async function reportCheckpoints({
  hosts,
  clock,
  tellFleet,
  closing,
  everyMs = EVERY_MS,
}: CheckpointReporting): Promise<void> {
  const told = new Map<LeaseId, number>();
  const all = [...hosts];
  while (!closing.aborted) {
    await clock.pause(everyMs, closing);
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
      // No fleet, or no way to it: the next message carries these marks too.
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
  if (order.gang[0]?.host !== host.id || phaseOf(run).kind !== "running") return undefined;
  const dir = tokenDir(checkpointDirOf(host, run), order.token);
  const mark = completeIn(host.system.files, dir, host.jobUid?.(order)).at(-1);
  return mark === undefined ? undefined : { lease: run.leaseId, atMs: mark.atMs };
}
