/**
 * @file Opportunistic backfill: jobs run on GPUs that wait idle for the rest of a reservation, and give them back when its job can start.
 *
 * A reservation often holds free GPUs for minutes while its job waits for the rest. Meanwhile a request that cannot start otherwise may
 * start there, if it can be evicted cheaply (opportunistic-terms.ts). The reservation stays. When only opportunistic leases keep its job from
 * starting, all of them are evicted together: their jobs write a checkpoint, stop, and return to the queue with their seniority; the loss is
 * charged to the job that starts. It starts later by one checkpoint, and by the time for a revocation where a job does not answer.
 *
 * A checkpoint and a restart cost seconds, so only reservations that are expected to wait for `LEAST_MS` or longer are used: each lease that
 * they wait for is expected to last once more for the time that it has run (the median where run times of all sizes together follow
 * P(longer than x | longer than e) = e / x), cut by its time limit; the longest of these counts.
 *
 * No loops: each round of evictions is followed by the start of a gang whose place was complete, and an opportunistic job takes GPUs from no
 * other. Cost: O(hosts of a reservation + leases there) for each reservation with free GPUs.
 */

import type { LeaseId } from "../../domain/values/ids.ts";
import { gpuCountOf, type Lease, type Reservation } from "../../domain/lease/lease.ts";
import type { EvictItem, PendingRequest, PlanItem, ReserveItem } from "../../domain/lease/plan.ts";
import type { Hold } from "../capacity/host-pools.ts";
import { untilLeasesChange } from "../capacity/release-profile.ts";
import { tryOut } from "../capacity/trial.ts";
import { checkGrant, isAcceptableSize } from "../ledger/rules/grant-check.ts";
import { isUsable } from "./plan-reservation.ts";
import { freeGpusIn, type ReservationSet } from "./reservation-set.ts";
import { withoutOwn } from "./trial.ts";
import type { CycleView } from "../admission/feasibility.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { usesReservationOf } from "../ledger/rules/opportunistic-terms.ts";
import { isSpared } from "../ledger/rules/queue-holds.ts";
import { opportunisticGpus } from "../ledger/rules/reservation-index.ts";
import { lossOf } from "../preemption/eviction-cost.ts";

/** Reservations that are expected to wait for less are not used. */
export const LEAST_MS = 20_000;

/** Reservations whose free GPUs opportunistic jobs may use; not the request's own. Cost: O(1) until a lease or a reservation changes. */
export function opportunisticFor(
  reservations: ReservationSet,
  view: CycleView,
  request?: PendingRequest,
): readonly Reservation[] {
  const all = longWaiting(reservations, view);
  return reservationIn(all, request) === undefined
    ? all
    : all.filter(({ jobId }) => jobId !== request?.jobId);
}

const reservationIn = (
  all: readonly Reservation[],
  request: PendingRequest | undefined,
): Reservation | undefined => request && all.find(({ jobId }) => jobId === request.jobId);

function longWaiting(reservations: ReservationSet, view: CycleView): readonly Reservation[] {
  const { changes, backfill, longWaiting: known } = reservations;
  const { leaseVersion: version } = reservations.capacity;
  if (known?.version === version && known.changes === changes) return known.reservations;
  const found = [...backfill.values()].filter(
    (each) =>
      freeGpusIn(reservations, each) > 0 && expectedMs(reservations, each, view) >= LEAST_MS,
  );
  reservations.longWaiting = { version, changes, reservations: found };
  return found;
}

/** How long the job is expected to wait for the rest of its place; infinite for a reservation of a part of a place. */
function expectedMs(
  { requests }: Pick<ReservationSet, "requests">,
  reservation: Reservation,
  { capacity, nowMs }: CycleView,
): number {
  let longestMs = 0;
  const awaited = awaitedOn(reservation.gpus, capacity);
  for (const { sinceMs, endAtMs } of awaited) {
    const agoMs = Math.max(0, nowMs - sinceMs);
    longestMs = Math.max(longestMs, Math.min(agoMs, endAtMs - nowMs));
  }
  const request = requests.get(reservation.jobId);
  const isWhole =
    request === undefined || isAcceptableSize(request.gang, gpuCountOf(reservation.gpus));
  return !isWhole ? Infinity : awaited.length === 0 ? 0 : longestMs;
}

/** Who holds GPUs of a list otherwise than opportunistically, each once. */
const awaitedOn = untilLeasesChange((gpus, { hosts }): readonly Hold[] => {
  const found = new Map<string, Hold>();
  for (const { host: id, mask } of gpus)
    for (const [name, hold] of hosts.get(id)?.holds ?? [])
      if ((hold.mask & mask & ~hold.opportunisticMask) !== 0) found.set(name, hold);
  return [...found.values()];
});

/** The item, marked as opportunistic where it has GPUs that are reserved for other jobs. */
export function asOpportunistic(
  item: PlanItem,
  request: PendingRequest,
  view: CycleView,
): PlanItem {
  const { reserved } = view.capacity;
  const shared = opportunisticGpus(reserved, request, { gpus: item.gpus, nowMs: view.nowMs });
  return shared.length === 0 ? item : { ...item, isOpportunistic: true };
}

export interface Recall {
  readonly evict: readonly EvictItem[];
  readonly reserve: ReserveItem;
}

/** Evictions for jobs that wait only for GPUs in opportunistic use, or being given up. The capacity is left as it was. */
export function recalls(
  reservations: ReservationSet,
  view: CycleView,
  {
    ledger,
    taken,
  }: {
    readonly ledger: Ledger;
    /** Leases that the plan evicts already. */
    readonly taken: ReadonlySet<LeaseId>;
  },
): readonly Recall[] {
  const found: Recall[] = [];
  const recalled = new Set(taken);
  for (const reservation of [...view.capacity.reserved.byJob.values()]) {
    const { jobId, kind, gpus } = reservation;
    const request = ledger.requests.get(jobId);
    if (request === undefined || (kind !== "backfill" && kind !== "preemption")) continue;
    const holders = holdersOf(reservation, view, ledger);
    if (holders === undefined) continue;
    const evicted = holders.filter((lease) => !isLeaving(lease) && !recalled.has(lease.id));
    if (evicted.length === 0 || evicted.some((lease) => isSpared(ledger.holds, lease))) continue;
    if (!couldStart(request, reservation, { reservations, view, ledger, holders })) continue;
    const evict = evicted.map((lease): EvictItem => {
      const lostGpuSeconds = lossOf(lease, view.nowMs);
      recalled.add(lease.id);
      return {
        kind: "evict",
        lease: lease.id,
        forJob: jobId,
        lostGpuSeconds,
        reason: `${jobId} can start now on GPUs that are reserved for it; ${lostGpuSeconds} GPU-seconds are lost`,
      };
    });
    found.push({ evict, reserve: { jobId, gpus, kind: "preemption" } });
  }
  return found;
}

const isLeaving = ({ eviction, state }: Lease): boolean =>
  eviction !== undefined || state === "vacating";

/** The leases on the reserved GPUs, all of which are opportunistic or ending; undefined while the job waits for any other lease. */
function holdersOf(
  reservation: Reservation,
  { capacity }: CycleView,
  { leases }: Ledger,
): readonly Lease[] | undefined {
  const found = new Map<string, Lease>();
  for (const { host: id, mask } of reservation.gpus) {
    for (const [name, hold] of capacity.hosts.get(id)?.holds ?? []) {
      if ((hold.mask & mask) === 0) continue;
      // A grant of this very plan has a name of the cycle's own, and is no lease yet.
      const lease = leases.get(name as LeaseId);
      if (lease === undefined) return undefined;
      const isNew = !found.has(name);
      found.set(name, lease);
      if (isLeaving(lease)) continue;
      if (
        (hold.mask & mask & ~hold.opportunisticMask) !== 0 ||
        (isNew && !usesReservationOf(reservation, lease))
      )
        return undefined;
    }
  }
  return [...found.values()].sort((a, b) => a.token - b.token);
}

/** Whether `apply` would make the grant once these leases are gone. */
function couldStart(
  request: PendingRequest,
  reservation: Reservation,
  {
    reservations,
    view,
    ledger,
    holders,
  }: {
    readonly reservations: ReservationSet;
    readonly view: CycleView;
    readonly ledger: Ledger;
    readonly holders: readonly Lease[];
  },
): boolean {
  const { capacity, nowMs } = view;
  const { gpus } = reservation;
  if (gpuCountOf(gpus) === 0 || !isUsable(request, reservation, view)) return false;
  const slots = request.slots === undefined ? {} : { slots: 1 };
  return withoutOwn(reservations, request.jobId, () =>
    tryOut(capacity, (trial) => {
      for (const lease of holders) trial.removeLease(lease);
      const { index, usage, reserved } = capacity;
      const terms = { index, usage, reserved, hostStatuses: ledger.hosts, nowMs };
      return checkGrant(request, { gpus, ...slots }, terms) === undefined;
    }),
  );
}
