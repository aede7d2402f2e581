/**
 * @file An order to give up a lease, as its job reads it: whether it is one, how the run that it stopped has ended, and what of it is shown.
 *
 * A run that ends during the order has ended: only what the stop itself brought about, or a host that was lost meanwhile, counts as
 * given up. Such a run is charged to nobody, and the job asks again at once with its seniority.
 */

import { gpuCountOf, type HostGpus } from "../domain/lease.ts";
import { lostGpuSeconds, type Preempted } from "../domain/preempted.ts";
import type { GangEnd } from "./gang-end.ts";
import type { PreemptOrder } from "./messages.ts";
import { isUncharged } from "./run-verdict.ts";

/** Whether a signal that claims to be such an order is one. */
export function isPreemptOrder(value: unknown): value is PreemptOrder {
  if (!isFields(value)) return false;
  const { lease, forJob, reason, keep } = value;
  return (
    [lease, forJob, reason].every((each) => typeof each === "string") &&
    (keep === undefined || (Array.isArray(keep) && keep.every(isHostGpus)))
  );
}

const isFields = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

const isHostGpus = (value: unknown): value is HostGpus =>
  isFields(value) && typeof value["host"] === "string" && typeof value["mask"] === "number";

/** Whether the run gave way, rather than came to its own end in the same moment. */
export const gaveWay = ({ end, cause }: GangEnd): boolean =>
  end !== "completed" && (cause === undefined || isUncharged(cause.code));

export const preemptionOf = ({ forJob, reason, keep }: PreemptOrder): Preempted => ({
  forJob,
  reason,
  atMs: Date.now(),
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
