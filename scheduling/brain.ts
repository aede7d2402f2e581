/**
 * @file What decisions need of a ledger, worked out once and kept up to date by what changes: capacity, queue, who runs how much.
 *
 * `openBrain` reads a whole ledger, O(ledger); `watchBrain` follows a draft (draft.ts), O(what changed). Both come to the same.
 */

import type { HostId, JobId, LeaseId } from "../domain/ids.ts";
import type { Constraints } from "../domain/job.ts";
import { isShrunk } from "../domain/lease.ts";
import type { PendingRequest } from "../domain/plan.ts";
import {
  noteLease,
  noteReservation,
  noteStanding,
  openCapacity,
  type Capacity,
} from "./capacity.ts";
import type { DraftWatcher } from "./draft.ts";
import { smallestSize } from "./feasibility.ts";
import { noteJob, noteJobLease, type HoldingsBook } from "./holdings-book.ts";
import type { HostStanding, Ledger } from "./ledger.ts";
import type { Kind } from "./queue/kind.ts";
import type { Queue, QueuePolicy } from "./queue/queue-policy.ts";
import { addRunning, runningGpusOf } from "./service.ts";
import { noteVictim, openVictimBook, type VictimBook } from "./victim-book.ts";

export interface Brain {
  readonly capacity: Capacity;
  readonly queue: Queue;
  /** By flow. */
  readonly runningGpus: Map<string, number>;
  /** How many requests wait whose smallest size is this. */
  readonly sizes: Map<number, number>;
  /** Inference jobs that wait. */
  readonly inference: Set<JobId>;
  /** Leases of jobs that started smaller and may grow. */
  readonly shrunk: Set<LeaseId>;
  readonly victims: VictimBook;
  /** Where the brain is kept. */
  book?: HoldingsBook;
}

/** `isDismissing`: whether cycles pass over whole kinds of requests, which those never do that tell everybody why they wait. */
export function openBrain(
  ledger: Ledger,
  policy: QueuePolicy,
  { isDismissing = true }: { readonly isDismissing?: boolean } = {},
): Brain {
  const { requests, shape, leases } = ledger;
  const sizes = new Map<number, number>();
  const inference = new Set<JobId>();
  for (const request of requests.values()) {
    countSize(sizes, request, 1);
    if (request.class === "inference") inference.add(request.jobId);
  }
  const capacity = openCapacity(ledger);
  return {
    capacity,
    queue: policy.open({
      requests: requests.values(),
      tenants: shape.tenants,
      ...(shape.policy !== undefined && { policy: shape.policy }),
      kindOf: isDismissing ? kindFor() : "none",
    }),
    runningGpus: runningGpusOf(leases.values()),
    sizes,
    inference,
    shrunk: new Set([...leases.values()].filter(isShrunk).map(({ id }) => id)),
    victims: openVictimBook(leases.values(), capacity.index),
  };
}

/** Tells the brain of every change; `onShape` when all of it is void. */
export const watchBrain = (
  brain: () => Brain | undefined,
  standingOf: (host: HostId) => HostStanding | undefined,
  onShape: () => void,
): DraftWatcher => ({
  request: (before, after) => {
    const now = brain();
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
    now.queue.add(after);
  },
  lease: (before, after) => {
    const now = brain();
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
  reservation: (before, after) => {
    const now = brain();
    const job = (after ?? before)?.jobId;
    if (now === undefined || job === undefined) return;
    noteReservation(now.capacity, before, after);
    if (now.book !== undefined) noteJob(now.book, job);
  },
  host: (host) => {
    const now = brain();
    if (now !== undefined) noteStanding(now.capacity, host, standingOf(host));
  },
  shape: onShape,
});

/** The fewest GPUs with which any waiting request would start; infinite when nothing waits. */
export function fewestGpus({ sizes }: Brain): number {
  let fewest = Infinity;
  for (const size of sizes.keys()) fewest = Math.min(fewest, size);
  return fewest;
}

/**
 * As `kindOf` of the queue has it, at less cost: constraints are often the same object. When a gang may shrink does not matter,
 * because a kind is passed over for a request only that accepts its smallest size. Jobs with a time limit may be lent what others
 * wait for, so alike are only those whose limits are of one order of magnitude.
 */
function kindFor(): Kind {
  const words = new WeakMap<Constraints, string>();
  const wordOf = (constraints: Constraints): string => {
    const known = words.get(constraints);
    if (known !== undefined) return known;
    const word = JSON.stringify(constraints);
    words.set(constraints, word);
    return word;
  };
  return ({ class: jobClass, tenant, gang, constraints, avoidHosts, slots, timeLimitMs }) => {
    const limit = timeLimitMs === undefined ? "" : limitClass(timeLimitMs);
    const array = slots === undefined ? "" : "array";
    const sizes = `${gang.gpus} ${gang.min} ${gang.shapes?.join() ?? ""}`;
    return `${jobClass} ${tenant} ${sizes} ${array} ${limit} ${avoidHosts?.join() ?? ""} ${wordOf(constraints)}`;
  };
}

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
