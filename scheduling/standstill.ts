/**
 * @file Whether another pass through the line would find what the last one found: then the cycle need not make it.
 *
 * A pass is a function of what is set apart and for whom, of what is granted, ordered and claimed, and of whose turn has been: those
 * heads yield no more. Where it has changed none of that, the next does the same again; whose turn has been matters only
 * where somebody gave way in it. Reservations are compared by their GPUs, because each turn may make their lists anew.
 * Cost: O(hosts that are set apart).
 */

import type { JobId } from "../domain/ids.ts";
import type { Reservation } from "../domain/lease.ts";
import { claimedGpus } from "./claims.ts";
import type { CycleRun } from "./cycle-run.ts";
import { isSameSet } from "./heads.ts";

export interface Stand {
  readonly reserved: readonly Reservation[];
  readonly heads: readonly JobId[];
  /** How many heads had their turn, and how often one that had not was found to give way. */
  readonly visited: number;
  readonly yields: number;
  /** Grants, evictions and claims. */
  readonly decided: number;
}

/** What a pass reads and changes. */
type Passing = Pick<CycleRun, "heads" | "grants" | "evict" | "scene">;

export const standOf = (run: Passing): Stand => ({
  reserved: [...run.heads.capacity.reserved.byJob.values()],
  heads: [...run.heads.now.keys()],
  visited: run.heads.visited.size,
  yields: run.heads.yields,
  decided: decidedBy(run),
});

/** `before`: as things stood when the pass began. */
export function isStandstill(run: Passing, before: Stand): boolean {
  const { heads } = run;
  const { byJob } = heads.capacity.reserved;
  if (before.decided !== decidedBy(run)) return false;
  if (before.visited !== heads.visited.size && before.yields !== heads.yields) return false;
  if (before.reserved.length !== byJob.size || before.heads.length !== heads.now.size) return false;
  let at = 0;
  for (const job of heads.now.keys()) {
    if (job !== before.heads[at]) return false;
    at += 1;
  }
  return before.reserved.every((former) => isSame(former, byJob.get(former.jobId)));
}

const decidedBy = ({ grants, evict, scene: { claims } }: Passing): number =>
  grants.length + evict.length + claimedGpus(claims);

const isSame = (a: Reservation, b: Reservation | undefined): boolean =>
  a === b ||
  (b !== undefined &&
    a.kind === b.kind &&
    a.lendUntilMs === b.lendUntilMs &&
    isSameSet(a.gpus, b.gpus));
