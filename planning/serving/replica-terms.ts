/**
 * @file How many requests a replica may have in service, and how fast they may come to it, so that the planned times hold whatever the service's load is.
 *
 * A replica that always has n requests in service answers one after W = O × D(n) + n × s, because between two tokens of a request come the prompts of the
 * others, n in the time of one answer. `slots` is the largest n with W / O ≤ TPOT that fits into memory. Prompts that come at once wait for each other:
 * one more comes only while those that have come, at s each, are done within `backlogMs`, half of what TTFT leaves beside a prompt and two steps; the
 * other half is for the line. s, D and O as in `service-level.ts`. Replicas of one engine share a door: their slots add up. Cost: O(requests).
 */

import type { ServingPlan } from "./plan-serving.ts";

export interface ReplicaTerms {
  readonly slots: number;
  /** In which one prompt keeps the replica busy. */
  readonly promptMs: number;
  /** Of prompts that have come; 0 with no prompts: any number may come at once. */
  readonly backlogMs: number;
  /** Requests a second with all slots in use; absent where that is not known. */
  readonly ratePerS?: number;
}

/** What TTFT leaves is shared between the replica and the line. */
const REPLICA_SHARE = 0.5;

export function replicaTerms({
  split,
  replicas,
  goal,
  ratePerS,
}: Pick<ServingPlan, "split" | "replicas" | "goal" | "ratePerS">): ReplicaTerms {
  const { prompt, stepMs } = split.replica;
  let slots = 1;
  for (const [at, step] of stepMs.entries()) {
    const requests = at + 1;
    if (step + (prompt.busyMs * requests) / goal.outputTokens > goal.tpotMs) break;
    slots = requests;
  }
  const step = stepMs[slots - 1] ?? 0;
  const left = goal.ttftMs - prompt.wholeMs - 2 * step;
  return {
    slots: slots * replicas,
    promptMs: prompt.busyMs / replicas,
    backlogMs: Math.max(prompt.busyMs / replicas, REPLICA_SHARE * left),
    ...(ratePerS > 0 && {
      ratePerS: (1_000 * replicas * slots) / (goal.outputTokens * step + slots * prompt.busyMs),
    }),
  };
}
