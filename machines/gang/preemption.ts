/**
 * @file How a job reads an order to give up its lease: whether a signal is such an order, whether the run gave way to it, and what is shown of it.
 *
 * A run that ends by itself during the order has ended. It counts as preempted only when the stop itself ended it, or when a host was lost
 * meanwhile. A preempted run is not charged to the job, which asks again at once with its seniority.
 */

import { gpuCountOf, type HostGpus } from "../../domain/lease/lease.ts";
import type { PreemptionLimits } from "../../domain/lease/preemption-limits.ts";
import { isFields } from "../../lib/fields.ts";
import { lostGpuSeconds, type Preempted } from "../../domain/lease/preempted.ts";
import type { GangEnd } from "./gang-end.ts";
import type { PreemptOrder } from "../../protocol/job.ts";
import { isUncharged } from "./retry-verdict.ts";

/** Whether a signal that claims to be such an order is one. */
export function isPreemptOrder(value: unknown): value is PreemptOrder {
  if (!isFields(value)) return false;
  const { lease, forJob, reason, keep, limits } = value;
  return (
    [lease, forJob, reason].every((each) => typeof each === "string") &&
    (limits === undefined || areLimits(limits)) &&
    (keep === undefined || (Array.isArray(keep) && keep.every(isHostGpus)))
  );
}

const areLimits = (value: unknown): value is PreemptionLimits =>
  isFields(value) &&
  [value["most"], value["coolDownMs"]].every((each) => each === undefined || isAmount(each));

const isAmount = (value: unknown): boolean =>
  typeof value === "number" && Number.isFinite(value) && value >= 0;

const isHostGpus = (value: unknown): value is HostGpus =>
  isFields(value) && typeof value["host"] === "string" && typeof value["mask"] === "number";

/** Whether the order ended the run, rather than the run itself in the same moment. */
export const gaveWay = ({ end, cause }: GangEnd): boolean =>
  end !== "completed" && (cause === undefined || isUncharged(cause.code));

export const preemptionOf = ({ forJob, reason, keep }: PreemptOrder, nowMs: number): Preempted => ({
  forJob,
  reason,
  atMs: nowMs,
  ...(keep !== undefined && { keptGpus: gpuCountOf(keep) }),
});

/** The same once the run has stopped. */
export function settledPreemption(
  noted: Preempted,
  { startedAtMs, endedAtMs, checkpoint }: GangEnd,
  gpus: number,
): Preempted {
  return {
    ...noted,
    ...(checkpoint !== undefined && { checkpoint }),
    lostGpuSeconds: lostGpuSeconds({
      gpus,
      endedAtMs,
      ...(startedAtMs !== undefined && { startedAtMs }),
      ...(checkpoint !== undefined && { checkpoint }),
    }),
  };
}
