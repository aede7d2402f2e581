/**
 * @file Which clusters, and when, by the time at which a job would end: what a planner that predicts steps adds to a method of choosing clusters.
 *
 * *Which*: beside the method's own set those that it finds when clusters of that set are taken away one after the other, and of all these the one with the shortest
 * predicted run. *When*: the ends of running jobs are known, as predicted; the first in line waits for one of the next `MOST_ENDS` when it ends sooner so than
 * if it started now (on fewer clusters, or once a gang has left the links). Every gang is whole, and nobody passes it meanwhile. No run is shorter than in one
 * cluster, which is where looking ahead stops. Ties: start now, the method's own set. The room is as before afterwards.
 * Cost: O(ends · clusters of the set · (decision + step)).
 */

import type {
  ClusterChoice,
  ClusterPolicy,
  ClusterRoom,
  ClusterWish,
} from "../../scheduling/placement/cluster-policy.ts";
import { addLoad } from "../../scheduling/placement/link-graph.ts";

export interface Departure {
  readonly endMs: number;
  readonly choice: ClusterChoice;
  readonly links: readonly number[];
}

export interface Prospect {
  readonly wish: ClusterWish;
  readonly room: ClusterRoom;
  readonly policy: ClusterPolicy;
  readonly nowMs: number;
  /** In one cluster. */
  readonly leastRunMs: number;
  /** Of a choice, in the room as it is then. */
  readonly runMsOf: (choice: ClusterChoice) => number;
  /** By their ends, soonest first. */
  readonly departures: () => Departure | undefined;
}

/** `waitMs` is 0 for a start now; undefined: no set is free now. */
export interface Foreseen {
  readonly waitMs: number;
  readonly choice: ClusterChoice;
}

const MOST_ENDS = 64;
const MOST_ROUNDS = 4;
/** Runs are sums of floats. */
const ALIKE = 1 - 1e-9;

export function foresee(prospect: Prospect): Foreseen | undefined {
  const { room, nowMs, leastRunMs, departures } = prospect;
  const now = shortestRun(prospect);
  if (now === undefined) return undefined;
  let best = { endMs: nowMs + now.runMs, atMs: nowMs, choice: now.choice };
  const gone: Departure[] = [];
  let next = departures();
  while (next !== undefined && gone.length < MOST_ENDS) {
    const { endMs } = next;
    if (endMs + leastRunMs >= best.endMs * ALIKE) break;
    leave(room, next, 1);
    gone.push(next);
    next = departures();
    if (next?.endMs === endMs) continue;
    const then = shortestRun(prospect);
    if (then !== undefined && endMs + then.runMs < best.endMs * ALIKE)
      best = { endMs: endMs + then.runMs, atMs: endMs, choice: then.choice };
  }
  for (const each of gone) leave(room, each, -1);
  return { waitMs: best.atMs - nowMs, choice: best.choice };
}

interface Run {
  readonly choice: ClusterChoice;
  readonly runMs: number;
}

/** Takes one cluster away at a time, and goes on from the best set so far while that is shorter. */
function shortestRun(prospect: Prospect): Run | undefined {
  const { wish, room, policy, leastRunMs, runMsOf } = prospect;
  const { free } = room;
  const own = policy(wish, room).choice;
  if (own === undefined) return undefined;
  let best: Run = { choice: own, runMs: runMsOf(own) };
  const taken: (readonly [cluster: number, gpus: number])[] = [];
  for (let rounds = 0; rounds < MOST_ROUNDS; rounds += 1) {
    let without: number | undefined;
    for (const cluster of best.choice.clusters) {
      if (best.runMs * ALIKE <= leastRunMs) break;
      const held = free[cluster] ?? 0;
      free[cluster] = 0;
      const { choice } = policy(wish, room);
      free[cluster] = held;
      const runMs = choice === undefined ? Infinity : runMsOf(choice);
      if (choice === undefined || runMs >= best.runMs * ALIKE) continue;
      best = { choice, runMs };
      without = cluster;
    }
    if (without === undefined) break;
    taken.push([without, free[without] ?? 0]);
    free[without] = 0;
  }
  for (const [cluster, gpus] of taken) free[cluster] = gpus;
  return best;
}

function leave({ free, links }: ClusterRoom, { choice, links: used }: Departure, sign: 1 | -1) {
  for (const [at, cluster] of choice.clusters.entries())
    free[cluster] = (free[cluster] ?? 0) + sign * (choice.gpus[at] ?? 0);
  addLoad(links, used, sign === 1 ? -1 : 1);
}
