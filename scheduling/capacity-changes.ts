/**
 * @file What changes a fleet's capacity: leases and grants come and go, GPUs are set apart, hosts answer or do not.
 *
 * Cost: O(hosts concerned) a change.
 */

import type { HostId } from "../domain/ids.ts";
import { popCount, type HostGpus, type Lease, type Reservation } from "../domain/lease.ts";
import type { Capacity } from "./capacity.ts";
import { hindranceOf } from "./feasibility.ts";
import { changeHost, keptMask, setHindrance, UNKNOWN_END_MS, type PoolHost } from "./host-pools.ts";
import type { HostStanding } from "./ledger.ts";
import { addReserved, dropReserved, maskIn, renewReserved } from "./reserved.ts";
import { heldBy, release, take, takenGpus, type Held } from "./usage.ts";

/** A lease came, changed, or went. */
export function noteLease(
  capacity: Capacity,
  before: Lease | undefined,
  after: Lease | undefined,
): void {
  const { usage, index, hosts } = capacity;
  if (before !== undefined) {
    const gpus = takenGpus(before);
    release(usage, index, heldBy(before));
    for (const { host: id, mask } of gpus) {
      const host = hosts.get(id);
      if (host === undefined) continue;
      host.holds.delete(before.id);
      setMasks(capacity, host, { leasedMask: host.leasedMask & ~mask });
    }
  }
  if (after === undefined) return;
  const gpus = takenGpus(after);
  const endAtMs = endOf(after);
  take(usage, index, heldBy(after));
  for (const { host: id, mask } of gpus) {
    const host = hosts.get(id);
    if (host === undefined) continue;
    const loanMask = maskIn(after.loan?.gpus ?? [], id);
    host.holds.set(after.id, { mask, endAtMs, loanMask, sinceMs: after.grantedAtMs });
    setMasks(capacity, host, { leasedMask: host.leasedMask | mask });
  }
}

/** When its GPUs are free at the latest, as its owner says. */
const endOf = ({ state, grantedAtMs, terms, slots }: Lease): number =>
  state === "vacating"
    ? grantedAtMs
    : endAt(grantedAtMs, slots === undefined ? terms?.timeLimitMs : undefined);

export const endAt = (grantedAtMs: number, timeLimitMs: number | undefined): number =>
  timeLimitMs === undefined ? UNKNOWN_END_MS + grantedAtMs : grantedAtMs + timeLimitMs;

/** GPUs of a grant that is not a lease yet. */
export interface FreshGrant extends Held {
  /** Unlike the id of any lease and of any other grant. */
  readonly name: string;
  readonly endAtMs: number;
  /** Of its GPUs, those that it has on loan. */
  readonly loan?: readonly HostGpus[];
}

export function noteGrant(capacity: Capacity, grant: FreshGrant): void {
  const { name, endAtMs, loan = [] } = grant;
  take(capacity.usage, capacity.index, grant);
  for (const { host: id, mask } of grant.gpus) {
    const host = capacity.hosts.get(id);
    if (host === undefined) continue;
    host.holds.set(name, { mask, endAtMs, loanMask: maskIn(loan, id), sinceMs: Infinity });
    setMasks(capacity, host, { leasedMask: host.leasedMask | mask });
  }
}

export function undoGrant(capacity: Capacity, grant: FreshGrant): void {
  const { name } = grant;
  release(capacity.usage, capacity.index, grant);
  for (const { host: id, mask } of grant.gpus) {
    const host = capacity.hosts.get(id);
    if (host === undefined) continue;
    host.holds.delete(name);
    setMasks(capacity, host, { leasedMask: host.leasedMask & ~mask });
  }
}

/** GPUs were set apart, others instead, or none any more. */
export function noteReservation(
  capacity: Capacity,
  before: Reservation | undefined,
  after: Reservation | undefined,
): void {
  if (before !== undefined && before.gpus === after?.gpus) {
    renewReserved(capacity.reserved, after);
    return;
  }
  if (before !== undefined) {
    dropReserved(capacity.reserved, before);
    for (const { host: id, mask } of before.gpus) {
      const host = capacity.hosts.get(id);
      if (host !== undefined) setMasks(capacity, host, { reservedMask: host.reservedMask & ~mask });
    }
  }
  if (after === undefined) return;
  addReserved(capacity.reserved, after);
  for (const { host: id, mask } of after.gpus) {
    const host = capacity.hosts.get(id);
    if (host !== undefined) setMasks(capacity, host, { reservedMask: host.reservedMask | mask });
  }
}

/** A host answers again, is drained, falls silent. */
export function noteStanding(
  capacity: Capacity,
  id: HostId,
  standing: HostStanding | undefined,
): void {
  const host = capacity.hosts.get(id);
  const hindrance = hindranceOf(standing);
  if (host === undefined || host.hindrance === hindrance) return;
  setHindrance(host, hindrance);
  rename(capacity);
  capacity.leaseVersion = capacity.hostVersion = capacity.version;
}

export type ContentMark = Pick<Capacity, "version" | "leaseVersion" | "hostVersion">;

export const markOf = ({ version, leaseVersion, hostVersion }: Capacity): ContentMark => ({
  version,
  leaseVersion,
  hostVersion,
});

/** Everything has been put back as it was at the mark, so what was worked out then holds again. */
export function returnTo(
  capacity: Capacity,
  { version, leaseVersion, hostVersion }: ContentMark,
): void {
  capacity.version = version;
  capacity.leaseVersion = leaseVersion;
  capacity.hostVersion = hostVersion;
}

function rename(capacity: Capacity): void {
  capacity.lastVersion += 1;
  capacity.version = capacity.lastVersion;
}

function setMasks(
  capacity: Capacity,
  host: PoolHost,
  change: { readonly leasedMask?: number; readonly reservedMask?: number },
): void {
  const kept = keptMask(host);
  changeHost(host, change);
  const more = popCount(keptMask(host)) - popCount(kept);
  if (more !== 0) {
    const { cluster, gpuWatts } = host.pool;
    keepWatts(capacity, cluster.id, more * gpuWatts);
    for (const { name } of capacity.index.places.get(host.id)?.budgets ?? [])
      keepWatts(capacity, name, more * gpuWatts);
  }
  rename(capacity);
  if (change.leasedMask !== undefined) capacity.leaseVersion = capacity.version;
}

function keepWatts({ keptWatts }: Capacity, name: string, watts: number): void {
  keptWatts.set(name, (keptWatts.get(name) ?? 0) + watts);
}
