/**
 * @file What a plan sets apart, and for whom: reservations that begin, change places, or are refused.
 *
 * A reservation sets GPUs apart for a job, free or not, and no GPU is in two. It is for a job that waits; a `keep` also for one that
 * still runs, and a `bridge` for one that runs on the latency reserve. How they end is apply-preempt.ts's.
 * Part of the constitution: a change needs a higher `APPLY_VERSION`. Cost: O(hosts concerned) an item.
 */

import type { JobId } from "../domain/ids.ts";
import { gpuCountOf, type HostGpus, type Lease } from "../domain/lease.ts";
import { MAX_PLAN_ITEMS, type ReserveItem } from "../domain/plan.ts";
import { fullMask } from "../lib/bits.ts";
import { indexOf, refuse, reservedIn, setReservation, type Draft } from "./draft.ts";
import { sharedGpus } from "./reserved.ts";

/** Reservations of one plan change places together: what one gives up another may take, in whatever order they are named. */
export function applyReserve(draft: Draft, items: readonly ReserveItem[]): void {
  const formers = items.map(({ jobId }) => draft.reservations.get(jobId));
  const isSame = items.map((item, at) => isSameReservation(item, formers[at]));
  items.forEach(({ jobId }, at) => {
    if (isSame[at] !== true) setReservation(draft, jobId, undefined);
  });
  items.forEach((item, at) => {
    if (isSame[at] === true || item.gpus.length === 0) return;
    const former = formers[at];
    const problem =
      at < MAX_PLAN_ITEMS ? reserveProblem(draft, item) : (["EntryTooLarge", TOO_MANY] as const);
    if (problem === undefined) {
      const { jobId, gpus, kind, lendUntilMs } = item;
      setReservation(draft, jobId, {
        jobId,
        gpus,
        kind,
        sinceMs: former?.sinceMs ?? draft.nowMs,
        ...(lendUntilMs !== undefined && { lendUntilMs }),
        ...(former?.lostGpuSeconds !== undefined && { lostGpuSeconds: former.lostGpuSeconds }),
      });
      return;
    }
    refuse(draft, problem[0], `a reservation for ${item.jobId} is refused: ${problem[1]}`);
    if (former !== undefined && overlapOf(draft, former.gpus).length === 0)
      setReservation(draft, item.jobId, former);
  });
}

export const TOO_MANY = `a plan has ${MAX_PLAN_ITEMS} items of a kind at most; the rest is decided again`;

type Problem = readonly [
  code: "HostUnknown" | "GpuReserved" | "RequestGone" | "EntryTooLarge",
  message: string,
];

function isSameReservation(item: ReserveItem, former: ReserveItem | undefined): boolean {
  return (
    former !== undefined &&
    former.kind === item.kind &&
    former.lendUntilMs === item.lendUntilMs &&
    former.gpus.length === item.gpus.length &&
    gpuCountOf(sharedGpus(item.gpus, former.gpus)) === gpuCountOf(item.gpus) &&
    gpuCountOf(former.gpus) === gpuCountOf(item.gpus)
  );
}

function reserveProblem(draft: Draft, { jobId, gpus, kind }: ReserveItem): Problem | undefined {
  const isOpen =
    kind === "bridge"
      ? borrowerOf(draft, jobId) !== undefined
      : draft.requests.has(jobId) ||
        (kind === "keep" && [...draft.leases.values()].some((lease) => isRunning(lease, jobId)));
  if (!isOpen) return ["RequestGone", "nothing of it waits"];
  const { places } = indexOf(draft);
  const names = new Set(gpus.map(({ host }) => host));
  if (names.size < gpus.length) return ["HostUnknown", "it names a host twice"];
  for (const { host, mask } of gpus) {
    const most = fullMask(places.get(host)?.host.gpuCount ?? 0);
    if (!Number.isInteger(mask) || mask < 1 || mask > most)
      return ["HostUnknown", `mask ${mask} is no set of the GPUs of ${host}`];
  }
  const [part] = overlapOf(draft, gpus);
  return part === undefined
    ? undefined
    : ["GpuReserved", `GPUs of ${part.host} (mask ${part.mask}) are set apart for another job`];
}

const isRunning = (lease: Lease, jobId: JobId): boolean =>
  lease.jobId === jobId && lease.state !== "vacating";

/** Those of the GPUs that are reserved for anybody. */
export function overlapOf(draft: Draft, gpus: readonly HostGpus[]): readonly HostGpus[] {
  const { masks } = reservedIn(draft);
  return gpus.flatMap(({ host, mask }) => {
    const both = (masks.get(host) ?? 0) & mask;
    return both === 0 ? [] : [{ host, mask: both }];
  });
}

/** Whether it is the lease of a job that the latency reserve is for, and goes on. */
export const isBorrower = ({ class: jobClass, state, eviction, slots }: Lease): boolean =>
  jobClass === "inference" && state !== "vacating" && eviction === undefined && slots === undefined;

/** GPUs for which nobody has been evicted yet. */
export const lentGpus = ({ gpus, bridgedGpus = 0 }: Lease): number =>
  gpuCountOf(gpus) - bridgedGpus;

/** The lease of the job that runs on the latency reserve. */
export function borrowerOf(draft: Draft, job: JobId): Lease | undefined {
  for (const lease of draft.leases.values())
    if (lease.jobId === job && isBorrower(lease)) return lease;
  return undefined;
}
