/**
 * @file Applies the reservations of a plan: they begin, change their GPUs, or are refused.
 *
 * A reservation holds GPUs for one job, free or in use, and no GPU is in two reservations. The job waits; with a `keep` it may also still
 * run, and with a `headroom` it runs on the inference headroom. apply-evictions.ts ends reservations.
 * Cost: O(hosts concerned) an item. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { JobId } from "../../../domain/values/ids.ts";
import {
  gpuCountOf,
  type HostGpus,
  type Lease,
  type Reservation,
} from "../../../domain/lease/lease.ts";
import { queueName } from "../../../domain/lease/queue-part.ts";
import { MAX_PLAN_ITEMS, type ReserveItem } from "../../../domain/lease/plan.ts";
import { fullMask } from "../../../lib/bits.ts";
import { refuse, type LedgerTransaction } from "./transaction.ts";
import { indexOf, reservedIn } from "./transaction-index.ts";
import { isRoomForWord } from "./transaction-size.ts";
import { setReservation } from "./transaction-leases.ts";
import { holdOf } from "../rules/queue-holds.ts";
import { sharedGpus, withoutGpus } from "../rules/reservation-index.ts";

/** Reservations of one plan change places together: what one gives up another may take, in whatever order they are named. */
export function applyReserve(transaction: LedgerTransaction, items: readonly ReserveItem[]): void {
  const formers = items.map(({ jobId }) => transaction.reservations.get(jobId));
  const isSame = items.map((item, at) => isSameReservation(item, formers[at]));
  items.forEach(({ jobId }, at) => {
    if (isSame[at] !== true) setReservation(transaction, jobId, undefined);
  });
  items.forEach((item, at) => {
    if (isSame[at] === true || item.gpus.length === 0) return;
    const former = formers[at];
    const problem =
      at < MAX_PLAN_ITEMS
        ? reserveProblem(transaction, item, former)
        : (["EntryTooLarge", TOO_MANY] as const);
    if (problem === undefined) {
      const { jobId, gpus, kind, usableUntilMs } = item;
      setReservation(transaction, jobId, {
        jobId,
        gpus,
        kind,
        sinceMs: former?.sinceMs ?? transaction.nowMs,
        ...(usableUntilMs !== undefined && { usableUntilMs }),
        ...(kind === "replace" && former?.untilMs !== undefined && { untilMs: former.untilMs }),
        ...(former?.lostGpuSeconds !== undefined && { lostGpuSeconds: former.lostGpuSeconds }),
      });
      return;
    }
    refuse(transaction, problem[0], `a reservation for ${item.jobId} is refused: ${problem[1]}`);
    if (former !== undefined && overlapOf(transaction, former.gpus).length === 0)
      setReservation(transaction, item.jobId, former);
  });
}

export const TOO_MANY = `a plan has ${MAX_PLAN_ITEMS} items of a kind at most; the rest is decided again`;

/** Whatever was to be stored. */
export const NO_ROOM = "the ledger has no room for it before something ends";

type Problem = readonly [
  code:
    "HostUnknown" | "GpuReserved" | "RequestGone" | "QueueHeld" | "EntryTooLarge" | "LedgerFull",
  message: string,
];

function isSameReservation(item: ReserveItem, former: ReserveItem | undefined): boolean {
  return (
    former !== undefined &&
    former.kind === item.kind &&
    former.usableUntilMs === item.usableUntilMs &&
    former.gpus.length === item.gpus.length &&
    gpuCountOf(sharedGpus(item.gpus, former.gpus)) === gpuCountOf(item.gpus) &&
    gpuCountOf(former.gpus) === gpuCountOf(item.gpus)
  );
}

function reserveProblem(
  transaction: LedgerTransaction,
  { jobId, gpus, kind }: ReserveItem,
  former: Reservation | undefined,
): Problem | undefined {
  const isMore = former?.kind !== "replace" || withoutGpus(gpus, former.gpus).length > 0;
  if (kind === "replace" && isMore) return ["GpuReserved", "what is kept for it only shrinks"];
  const isOpen =
    kind === "headroom"
      ? headroomUserOf(transaction, jobId) !== undefined
      : transaction.requests.has(jobId) ||
        (kind === "keep" &&
          [...transaction.leases.values()].some((lease) => isRunning(lease, jobId)));
  if (!isOpen) return ["RequestGone", "nothing of it waits"];
  const request = transaction.requests.get(jobId);
  const hold = kind === "keep" ? undefined : request && holdOf(transaction.holds, request);
  if (hold !== undefined) return ["QueueHeld", `${queueName(hold.queue)} is held`];
  if (!isRoomForWord(transaction, [jobId, gpus])) return ["LedgerFull", NO_ROOM];
  const { places } = indexOf(transaction);
  const names = new Set(gpus.map(({ host }) => host));
  if (names.size < gpus.length) return ["HostUnknown", "it names a host twice"];
  for (const { host, mask } of gpus) {
    const most = fullMask(places.get(host)?.host.gpuCount ?? 0);
    if (!Number.isInteger(mask) || mask < 1 || mask > most)
      return ["HostUnknown", `mask ${mask} is no set of the GPUs of ${host}`];
  }
  const [part] = overlapOf(transaction, gpus);
  return part === undefined
    ? undefined
    : ["GpuReserved", `GPUs of ${part.host} (mask ${part.mask}) are reserved for another job`];
}

const isRunning = (lease: Lease, jobId: JobId): boolean =>
  lease.jobId === jobId && lease.state !== "vacating";

/** Those of the GPUs that are reserved for anybody. */
export function overlapOf(
  transaction: LedgerTransaction,
  gpus: readonly HostGpus[],
): readonly HostGpus[] {
  const { masks } = reservedIn(transaction);
  return gpus.flatMap(({ host, mask }) => {
    const both = (masks.get(host) ?? 0) & mask;
    return both === 0 ? [] : [{ host, mask: both }];
  });
}

/** Whether it is the lease of a job that the latency reserve is for, and goes on. */
export const usesHeadroom = ({ class: jobClass, state, eviction, slots }: Lease): boolean =>
  jobClass === "inference" && state !== "vacating" && eviction === undefined && slots === undefined;

/** GPUs for which nobody has been evicted yet. */
export const lentGpus = ({ gpus, headroomGpus = 0 }: Lease): number =>
  gpuCountOf(gpus) - headroomGpus;

/** The lease of the job that runs on the latency reserve. */
export function headroomUserOf(transaction: LedgerTransaction, job: JobId): Lease | undefined {
  for (const lease of transaction.leases.values())
    if (lease.jobId === job && usesHeadroom(lease)) return lease;
  return undefined;
}
