/**
 * @file Indexes of a ledger's transaction: each is built when it is first needed, and kept up to date from then on.
 *
 * Cost: O(leases) to build one, O(1) a change of a lease. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import type { JobId, LeaseId } from "../../../domain/values/ids.ts";
import type { Lease } from "../../../domain/lease/lease.ts";
import { indexFleet, type FleetIndex } from "../rules/fleet-index.ts";
import { reservedOf, type Reserved } from "../rules/reservation-index.ts";
import { heldBy, relabel, release, take, usageOf, type Usage } from "../rules/usage.ts";
import type { LedgerTransaction } from "./transaction.ts";

export function indexOf({ shape }: Pick<LedgerTransaction, "shape">): FleetIndex {
  const known = INDEXES.get(shape);
  if (known !== undefined) return known;
  const index = indexFleet(shape);
  INDEXES.set(shape, index);
  return index;
}

/** A shape never changes. */
const INDEXES = new WeakMap<FleetShape, FleetIndex>();

/** GPUs and watts in use, by hosts, tenants and budgets. */
export function usageIn(transaction: LedgerTransaction): Usage {
  const { leases, usage, isUsageFresh } = transaction;
  if (usage !== undefined && isUsageFresh !== true) relabel(usage, leases.values());
  transaction.isUsageFresh = true;
  return (transaction.usage ??= usageOf(leases.values(), indexOf(transaction)));
}

export const reservedIn = (transaction: LedgerTransaction): Reserved =>
  (transaction.reserved ??= reservedOf(transaction.reservations.values()));

export function leasesOf(transaction: LedgerTransaction, job: JobId): readonly Lease[] {
  if (transaction.leaseIdsByJob === undefined) {
    transaction.leaseIdsByJob = new Map();
    for (const lease of transaction.leases.values()) addToIndex(transaction.leaseIdsByJob, lease);
  }
  return [...(transaction.leaseIdsByJob.get(job) ?? [])].flatMap(
    (id) => transaction.leases.get(id) ?? [],
  );
}

/** Leases under eviction, in order of their tokens. */
export function evictingIn(transaction: LedgerTransaction): readonly Lease[] {
  transaction.evictingIds ??= new Set(
    [...transaction.leases.values()].flatMap(({ id, eviction }) =>
      eviction === undefined ? [] : [id],
    ),
  );
  return [...transaction.evictingIds]
    .flatMap((id) => transaction.leases.get(id) ?? [])
    .sort((a, b) => a.token - b.token);
}

/** Opportunistic leases, in order of their tokens. */
export function opportunisticIn(transaction: LedgerTransaction): readonly Lease[] {
  transaction.opportunisticIds ??= new Set(
    [...transaction.leases.values()].flatMap(({ id, opportunistic }) =>
      opportunistic === undefined ? [] : [id],
    ),
  );
  return [...transaction.opportunisticIds]
    .flatMap((id) => transaction.leases.get(id) ?? [])
    .sort((a, b) => a.token - b.token);
}

/** Updates all open indexes for a lease that has come, gone or changed. */
export function reindexLease(
  transaction: LedgerTransaction,
  former: Lease | undefined,
  lease: Lease | undefined,
): void {
  const { usage, leaseIdsByJob, evictingIds, opportunisticIds } = transaction;
  if (usage !== undefined) {
    if (former !== undefined) release(usage, indexOf(transaction), heldBy(former));
    if (lease !== undefined) take(usage, indexOf(transaction), heldBy(lease));
  }
  if (leaseIdsByJob !== undefined) {
    if (lease !== undefined) addToIndex(leaseIdsByJob, lease);
    else if (former !== undefined) dropFromIndex(leaseIdsByJob, former);
  }
  const id = (lease ?? former)?.id;
  if (id === undefined) return;
  if (lease?.eviction === undefined) evictingIds?.delete(id);
  else evictingIds?.add(id);
  if (lease?.opportunistic === undefined) opportunisticIds?.delete(id);
  else opportunisticIds?.add(id);
}

function dropFromIndex(index: Map<JobId, Set<LeaseId>>, { jobId, id }: Lease): void {
  const ids = index.get(jobId);
  ids?.delete(id);
  if (ids?.size === 0) index.delete(jobId);
}

function addToIndex(index: Map<JobId, Set<LeaseId>>, { jobId, id }: Lease): void {
  const ids = index.get(jobId);
  if (ids === undefined) index.set(jobId, new Set([id]));
  else ids.add(id);
}
