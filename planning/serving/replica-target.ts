/**
 * @file How many replicas a service needs now, by the requests that it has: in service and waiting.
 *
 * With L requests and c slots a replica, ⌈(L + z √L) / c⌉: requests that come at random are within z standard deviations of their mean (Poisson; square-root
 * staffing, Halfin and Whitt 1981), and the margin is for what comes while a further replica starts. More are wanted at once; fewer only when the
 * most of the last `calmMs` needs fewer, so that short lulls give nothing back that has to be started again. Without a request for `idleMs` none is wanted,
 * where the rule allows that. Cost: O(samples of `calmMs`).
 */

import type { ReplicaRule } from "../../domain/job/service-rule.ts";

export interface ScaleOptions {
  /** Standard deviations of the number of requests that replicas are kept for. */
  readonly z: number;
  /** Fewer are wanted when fewer would have sufficed for so long. */
  readonly calmMs: number;
}

/** Set on seeds 1 to 3 of `bench replicas`, judged on others. */
export const SCALE: ScaleOptions = Object.freeze({ z: 1, calmMs: 5_000 });

export interface LoadSample {
  readonly atMs: number;
  /** Requests in service and waiting. */
  readonly load: number;
}

export interface ServiceLoad {
  /** In the order of time; the last one is of now. */
  readonly samples: readonly LoadSample[];
  /** Of one replica. */
  readonly slots: number;
  /** The end of the last request, or the start of the service. */
  readonly lastRequestMs: number;
  readonly nowMs: number;
}

export function replicaTarget(
  { min, max, idleMs }: ReplicaRule,
  { samples, slots, lastRequestMs, nowMs }: ServiceLoad,
  { z, calmMs }: ScaleOptions = SCALE,
): number {
  const most = samples
    .filter(({ atMs }) => atMs >= nowMs - calmMs)
    .reduce((peak, { load }) => Math.max(peak, load), 0);
  const needed = Math.ceil((most + z * Math.sqrt(most)) / slots);
  const isIdle = most === 0 && idleMs !== undefined && nowMs - lastRequestMs >= idleMs;
  // A service that was asked lately keeps one for the next request.
  return Math.min(max, Math.max(min, isIdle ? 0 : 1, needed));
}
