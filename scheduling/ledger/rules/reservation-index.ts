/**
 * @file Indexes the reservations of a ledger: which GPUs are reserved for which job, and which other jobs may be granted them.
 *
 * No GPU is reserved twice, so the GPUs reserved for others are all reserved ones less the job's own. GPUs of a backfill reservation may be
 * granted to a job that ends before the reservation's owner can start (EASY's shadow time), or opportunistically to a job that agrees to be
 * evicted then (opportunistic-terms.ts); no other reserved GPUs are.
 * Cost: O(reservations) to build, O(hosts of one) a change.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { byCodeUnit, type HostId, type JobId } from "../../../domain/values/ids.ts";
import {
  gpuCountOf,
  type GangRequest,
  type HostGpus,
  type Reservation,
} from "../../../domain/lease/lease.ts";

/** Changes by `addReserved`, `dropReserved` and `renewReserved` alone. */
export interface Reserved {
  /** All that is reserved, by host. */
  readonly masks: Map<HostId, number>;
  readonly byJob: Map<JobId, Reservation>;
}

export function reservedOf(reservations: Iterable<Reservation>): Reserved {
  const reserved: Reserved = { masks: new Map(), byJob: new Map() };
  for (const reservation of reservations) addReserved(reserved, reservation);
  return reserved;
}

export function addReserved({ masks, byJob }: Reserved, reservation: Reservation): void {
  byJob.set(reservation.jobId, reservation);
  for (const { host, mask } of reservation.gpus) masks.set(host, (masks.get(host) ?? 0) | mask);
}

export function dropReserved({ masks, byJob }: Reserved, reservation: Reservation): void {
  byJob.delete(reservation.jobId);
  for (const { host, mask } of reservation.gpus) masks.set(host, (masks.get(host) ?? 0) & ~mask);
}

/** Of the same GPUs for the same job, with other terms. */
export function renewReserved({ byJob }: Reserved, reservation: Reservation): void {
  byJob.delete(reservation.jobId);
  byJob.set(reservation.jobId, reservation);
}

/** The GPUs of a host that this job may not be granted, because they are reserved for others. */
export function reservedForOthers(reserved: Reserved, job: JobId, host: HostId): number {
  const mask = reserved.masks.get(host) ?? 0;
  return mask === 0 ? 0 : mask & ~maskIn(reserved.byJob.get(job)?.gpus ?? [], host);
}

/** The same less what its owners would lend for as long as this request lasts at most. */
export function forbiddenTo(
  reserved: Reserved,
  request: Pick<GangRequest, "jobId" | "timeLimitMs">,
  { host, nowMs }: { readonly host: HostId; readonly nowMs: number },
): number {
  let mask = reservedForOthers(reserved, request.jobId, host);
  const { timeLimitMs } = request;
  if (mask === 0 || timeLimitMs === undefined) return mask;
  for (const { usableUntilMs, gpus } of reserved.byJob.values()) {
    if (usableUntilMs !== undefined && nowMs + timeLimitMs <= usableUntilMs)
      mask &= ~maskIn(gpus, host);
  }
  return mask;
}

/** GPUs that an opportunistic grant may have besides: those that wait idle in reservations. */
export const usableBy = (
  reserved: Reserved,
  request: Pick<GangRequest, "jobId">,
  host: HostId,
): number => {
  let mask = 0;
  for (const { jobId, kind, gpus } of reserved.byJob.values())
    if (kind === "backfill" && jobId !== request.jobId) mask |= maskIn(gpus, host);
  return mask;
};

/** Those of the GPUs that the request can have only opportunistically, by host. */
export const opportunisticGpus = (
  reserved: Reserved,
  request: Pick<GangRequest, "jobId" | "timeLimitMs">,
  { gpus, nowMs }: { readonly gpus: readonly HostGpus[]; readonly nowMs: number },
): readonly HostGpus[] =>
  gpus
    .flatMap(({ host, mask }) => {
      const opportunistic = mask & forbiddenTo(reserved, request, { host, nowMs });
      return opportunistic === 0 ? [] : [{ host, mask: opportunistic }];
    })
    .sort((a, b) => byCodeUnit(a.host, b.host));

/** GPUs of one host. Cost: O(1) once a long list was asked. */
export const maskIn = (gpus: readonly HostGpus[], host: HostId): number =>
  (gpus.length < LONG ? gpus.find((part) => part.host === host)?.mask : masksIn(gpus).get(host)) ??
  0;

/** From so many hosts on a list is indexed. */
const LONG = 5;
/** Of lists of GPUs, which do not change. */
const INDEXED = new WeakMap<readonly HostGpus[], ReadonlyMap<HostId, number>>();

function masksIn(gpus: readonly HostGpus[]): ReadonlyMap<HostId, number> {
  const known = INDEXED.get(gpus);
  if (known !== undefined) return known;
  const masks = new Map<HostId, number>();
  for (const { host, mask } of gpus) if (!masks.has(host)) masks.set(host, mask);
  INDEXED.set(gpus, masks);
  return masks;
}

/** How many GPUs two sets share. */
export function sharedGpus(a: readonly HostGpus[], b: readonly HostGpus[]): readonly HostGpus[] {
  const masks = new Map(b.map(({ host, mask }) => [host, mask]));
  return a.flatMap(({ host, mask }) => {
    const both = mask & (masks.get(host) ?? 0);
    return both === 0 ? [] : [{ host, mask: both }];
  });
}

/** The GPUs of the first set that the second lacks. */
export function withoutGpus(a: readonly HostGpus[], b: readonly HostGpus[]): readonly HostGpus[] {
  const masks = new Map(b.map(({ host, mask }) => [host, mask]));
  return a.flatMap(({ host, mask }) => {
    const rest = mask & ~(masks.get(host) ?? 0);
    return rest === 0 ? [] : [{ host, mask: rest }];
  });
}

/** Whether a job that has stopped for the sake of going on with these GPUs is granted just them. */
export const isKept = (reservation: Reservation | undefined, gpus: readonly HostGpus[]): boolean =>
  reservation?.kind === "keep" &&
  gpuCountOf(gpus) === gpuCountOf(reservation.gpus) &&
  withoutGpus(gpus, reservation.gpus).length === 0;
