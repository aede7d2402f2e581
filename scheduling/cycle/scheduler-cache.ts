/**
 * @file Indexes over the ledger that every cycle reads: capacity, queue, counts and victims. Built once and updated incrementally.
 *
 * `openSchedulerCache` reads a whole ledger, O(ledger); `watchScheduler` follows a transaction (transaction.ts), O(changes). Both give the
 * same cache.
 */

import type { HostId, JobId, LeaseId } from "../../domain/values/ids.ts";
import { isShrunk } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { noteLease, noteReservation, noteStatus } from "../capacity/capacity-changes.ts";
import type { Capacity } from "../capacity/capacity-state.ts";
import { openCapacity } from "../capacity/capacity.ts";
import type { LedgerWatcher } from "../ledger/apply/transaction.ts";
import { smallestSize } from "../ledger/rules/grant-check.ts";
import { noteJob, noteJobLease, type HoldingsBook } from "../fairness/holdings-index.ts";
import type { HostStatus, Ledger } from "../ledger/ledger.ts";
import type { Kind } from "../queue/kind.ts";
import { openLabels, type Labels } from "../queue/labels.ts";
import type { Queue, QueuePolicy } from "../queue/queue-policy.ts";
import { holdOf } from "../ledger/rules/queue-holds.ts";
import { addRunning, runningGpusOf } from "../ledger/rules/service-account.ts";
import { noteVictim, openVictimIndex, type VictimIndex } from "../preemption/candidate-index.ts";

export interface SchedulerCache {
  readonly capacity: Capacity;
  /** Without requests that are held. */
  readonly queue: Queue;
  readonly holds: Ledger["holds"];
  /** Of requests that a pass has settled (settled-requests.ts). */
  readonly labels: Labels;
  /** By flow. */
  readonly runningGpus: Map<string, number>;
  /** Waiting requests by their smallest size. */
  readonly sizes: Map<number, number>;
  /** Waiting inference jobs. */
  readonly inference: Set<JobId>;
  /** Leases of jobs that started smaller and may scale up. */
  readonly shrunk: Set<LeaseId>;
  readonly victims: VictimIndex;
  /** Only in a live scheduler. */
  book?: HoldingsBook;
}

/** `isDismissing`: whether cycles pass over whole kinds of requests, which those that report reasons never do. */
export function openSchedulerCache(
  ledger: Ledger,
  policy: QueuePolicy,
  { isDismissing = true }: { readonly isDismissing?: boolean } = {},
): SchedulerCache {
  const { requests, leases, holds } = ledger;
  const sizes = new Map<number, number>();
  const inference = new Set<JobId>();
  for (const request of requests.values()) {
    countSize(sizes, request, 1);
    if (request.class === "inference") inference.add(request.jobId);
  }
  const capacity = openCapacity(ledger);
  return {
    capacity,
    queue: openQueue(ledger, policy, isDismissing ? kindOf : "none"),
    holds,
    labels: openLabels(),
    runningGpus: runningGpusOf(leases.values()),
    sizes,
    inference,
    shrunk: new Set([...leases.values()].filter(isShrunk).map(({ id }) => id)),
    victims: openVictimIndex(ledger, capacity.index),
  };
}

/** The requests that may start. `kindOf`: as `QueueView` has it. */
export const openQueue = (
  { requests, shape, holds }: Ledger,
  policy: QueuePolicy,
  kindOf: Kind | "none",
): Queue =>
  policy.open({
    requests: startable(requests.values(), holds),
    tenants: shape.tenants,
    ...(shape.policy !== undefined && { policy: shape.policy }),
    kindOf,
  });

function* startable(
  requests: Iterable<PendingRequest>,
  holds: Ledger["holds"],
): Generator<PendingRequest> {
  for (const request of requests) if (holdOf(holds, request) === undefined) yield request;
}

/** Updates the cache with every change; `onShape` when all of it is void. */
export const watchScheduler = (
  cache: () => SchedulerCache | undefined,
  statusOf: (host: HostId) => HostStatus | undefined,
  onShape: () => void,
): LedgerWatcher => ({
  request: (before, after) => {
    const now = cache();
    if (now === undefined) return;
    const job = (after ?? before)?.jobId;
    if (now.book !== undefined && job !== undefined) noteJob(now.book, job);
    if (before !== undefined) {
      countSize(now.sizes, before, -1);
      now.inference.delete(before.jobId);
      if (after === undefined) now.queue.remove(before.jobId);
    }
    if (after === undefined) return;
    countSize(now.sizes, after, 1);
    if (after.class === "inference") now.inference.add(after.jobId);
    if (holdOf(now.holds, after) === undefined) now.queue.add(after);
    else now.queue.remove(after.jobId);
  },
  lease: (before, after) => {
    const now = cache();
    if (now === undefined) return;
    noteLease(now.capacity, before, after);
    if (now.book !== undefined) noteJobLease(now.book, before, after);
    if (before !== undefined) {
      addRunning(now.runningGpus, before, -1);
      now.shrunk.delete(before.id);
    }
    noteVictim(now.victims, before, after);
    if (after === undefined) return;
    addRunning(now.runningGpus, after, 1);
    if (isShrunk(after)) now.shrunk.add(after.id);
  },
  reason: (job) => cache()?.queue.forget?.(job),
  reservation: (before, after) => {
    const now = cache();
    const job = (after ?? before)?.jobId;
    if (now === undefined || job === undefined) return;
    now.queue.forget?.(job);
    noteReservation(now.capacity, before, after);
    if (now.book !== undefined) noteJob(now.book, job);
  },
  host: (host) => {
    const now = cache();
    if (now !== undefined) noteStatus(now.capacity, host, statusOf(host));
  },
  shape: onShape,
  holds: onShape,
});

/** The fewest GPUs with which any waiting request would start; infinite when none waits. */
export function fewestGpus({ sizes }: SchedulerCache): number {
  let fewest = Infinity;
  for (const size of sizes.keys()) fewest = Math.min(fewest, size);
  return fewest;
}

/**
 * As `kindOf` of the queue, at less cost. The gang timeout does not matter, because a kind is dismissed for a request only that accepts its
 * smallest size. Backfill depends on time limits, so limits of requests of one kind are of one order of magnitude.
 */
const kindOf: Kind = (request) => {
  const { class: jobClass, tenant, gang, constraints, avoidHosts, slots, timeLimitMs } = request;
  const limit = timeLimitMs === undefined ? "" : limitClass(timeLimitMs);
  const array = slots === undefined ? "" : "array";
  const sizes = `${gang.gpus} ${gang.min} ${gang.shapes?.join() ?? ""}`;
  return `${jobClass} ${tenant} ${sizes} ${array} ${limit} ${avoidHosts?.join() ?? ""} ${JSON.stringify(constraints)}`;
};

const limitClass = (timeLimitMs: number): number => Math.floor(Math.log2(Math.max(1, timeLimitMs)));

/** No request of the same kind has a limit below this. */
export const leastLimitMs = ({ timeLimitMs }: Pick<PendingRequest, "timeLimitMs">): number =>
  timeLimitMs === undefined ? Infinity : 2 ** limitClass(timeLimitMs);

function countSize(sizes: Map<number, number>, request: PendingRequest, sign: 1 | -1): void {
  const size = smallestSize(request.gang);
  const left = (sizes.get(size) ?? 0) + sign;
  if (left > 0) sizes.set(size, left);
  else sizes.delete(size);
}
