/**
 * @file Searches for victims that were in vain: whoever is alike need not look again while nothing has changed.
 *
 * Rights, room and budget are those of a class, a tenant and a gang; where the capacity, the grants and the evictions of the cycle are
 * as they were, the same search comes to the same end. Not for those for whom something is set apart (it is lifted for the search), nor for
 * arrays, nor where maintenance lets some start that others may not. Cost: O(searches of the cycle), a few.
 */

import type { PendingRequest } from "../domain/plan.ts";
import type { CycleRun } from "./cycle-run.ts";
import { shrinkAtMs } from "./feasibility.ts";

export interface VainSearch {
  readonly request: PendingRequest;
  readonly version: number;
  readonly grants: number;
  readonly evictions: number;
}

type Searching = Pick<CycleRun, "scene" | "grants" | "evict" | "inVain" | "nowMs">;

export function noteInVain(run: Searching, request: PendingRequest): void {
  if (isComparable(run, request)) run.inVain.push({ request, ...stateOf(run) });
}

export const isInVain = (run: Searching, request: PendingRequest): boolean => {
  if (!isComparable(run, request)) return false;
  const { version, grants, evictions } = stateOf(run);
  return run.inVain.some(
    (search) =>
      search.version === version &&
      search.grants === grants &&
      search.evictions === evictions &&
      isAlike(search.request, request, run.nowMs),
  );
};

const stateOf = ({ scene, grants, evict }: Searching): Omit<VainSearch, "request"> => ({
  version: scene.capacity.version,
  grants: grants.length,
  evictions: evict.length,
});

const isComparable = ({ scene }: Searching, { slots, avoidHosts }: PendingRequest): boolean =>
  slots === undefined && avoidHosts === undefined && !scene.capacity.index.hasWindows;

const isAlike = (a: PendingRequest, b: PendingRequest, nowMs: number): boolean =>
  a.class === b.class &&
  a.tenant === b.tenant &&
  a.constraints === b.constraints &&
  a.gang.gpus === b.gang.gpus &&
  a.gang.min === b.gang.min &&
  a.gang.shapes === b.gang.shapes &&
  nowMs < shrinkAtMs(a) === nowMs < shrinkAtMs(b);
