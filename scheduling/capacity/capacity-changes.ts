/**
 * @file Updates a fleet's capacity when leases, grants, reservations or host conditions change.
 *
 * Cost: O(hosts concerned) a change.
 */

import type { HostId } from "../../domain/values/ids.ts";
import { popCount, type HostGpus, type Lease, type Reservation } from "../../domain/lease/lease.ts";
import type { Capacity } from "./capacity-state.ts";
import { drainedMask } from "../ledger/rules/gpu-drains.ts";
import { hostConditionOf } from "../ledger/rules/grant-check.ts";
import {
  changeHost,
  keptMask,
  setService,
  UNKNOWN_END_MS,
  type Hold,
  type PoolHost,
} from "./host-pools.ts";
import { wattsLimit } from "../ledger/rules/limits.ts";
import { strand } from "./stranded-gpus.ts";
import type { HostStatus } from "../ledger/ledger.ts";
import {
  addReserved,
  dropReserved,
  maskIn,
  renewReserved,
} from "../ledger/rules/reservation-index.ts";
import { heldBy, needOf, release, take, takenGpus, type Held } from "../ledger/rules/usage.ts";

/** A lease came, changed, or went. */
export function noteLease(
  capacity: Capacity,
  before: Lease | undefined,
  after: Lease | undefined,
): void {
  const { usage, index } = capacity;
  if (before !== undefined && after !== undefined && isSameHold(before, after)) return;
  if (before !== undefined) {
    const gpus = takenGpus(before);
    release(usage, index, heldBy(before));
    eachHost(capacity, gpus, (host, mask) => {
      host.holds.delete(before.id);
      setMasks(capacity, host, { leasedMask: host.leasedMask & ~mask });
      settleStranded(capacity, host);
    });
  }
  if (after === undefined) return;
  const gpus = takenGpus(after);
  const endAtMs = endOf(after);
  const need = needOf(after);
  take(usage, index, heldBy(after));
  hold(capacity, {
    name: after.id,
    gpus,
    opportunistic: after.opportunistic?.gpus ?? [],
    terms: { endAtMs, sinceMs: after.grantedAtMs, ...(need !== undefined && { need }) },
  });
}

/**
 * Whether a lease holds what it held, as when its grant is delivered or a checkpoint is written. Not asked of a lease with a label: the order in
 * which those came counts.
 */
const isSameHold = (before: Lease, after: Lease): boolean =>
  before.gpus === after.gpus &&
  before.vacatingHosts === after.vacatingHosts &&
  before.tenant === after.tenant &&
  needOf(before) === needOf(after) &&
  before.terms?.constraints.antiAffinity === undefined &&
  after.terms?.constraints.antiAffinity === undefined &&
  before.opportunistic?.gpus === after.opportunistic?.gpus &&
  before.grantedAtMs === after.grantedAtMs &&
  endOf(before) === endOf(after);

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
  /** Those of its GPUs that it uses opportunistically. */
  readonly opportunistic?: readonly HostGpus[];
}

export function noteGrant(capacity: Capacity, grant: FreshGrant): void {
  const { name, endAtMs, resources: need, opportunistic = [] } = grant;
  take(capacity.usage, capacity.index, grant);
  hold(capacity, {
    name,
    gpus: grant.gpus,
    opportunistic,
    terms: { endAtMs, sinceMs: Infinity, ...(need !== undefined && { need }) },
  });
}

interface Holding {
  readonly name: string;
  readonly gpus: readonly HostGpus[];
  readonly opportunistic: readonly HostGpus[];
  readonly terms: Pick<Hold, "endAtMs" | "sinceMs" | "need">;
}

/** Equal holds of a gang are one value. */
function hold(capacity: Capacity, { name, gpus, opportunistic, terms }: Holding): void {
  let last: Hold | undefined;
  eachHost(capacity, gpus, (host, mask) => {
    const opportunisticMask = maskIn(opportunistic, host.id);
    if (last?.mask !== mask || last.opportunisticMask !== opportunisticMask)
      last = { mask, opportunisticMask, ...terms };
    host.holds.set(name, last);
    setMasks(capacity, host, { leasedMask: host.leasedMask | mask });
    settleStranded(capacity, host);
  });
}

export function undoGrant(capacity: Capacity, grant: FreshGrant): void {
  const { name } = grant;
  release(capacity.usage, capacity.index, grant);
  eachHost(capacity, grant.gpus, (host, mask) => {
    host.holds.delete(name);
    setMasks(capacity, host, { leasedMask: host.leasedMask & ~mask });
    settleStranded(capacity, host);
  });
}

/** A reservation was made, changed or ended. */
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
    eachHost(capacity, before.gpus, (host, mask) => {
      setReserved(capacity, host, host.reservedMask & ~mask);
    });
  }
  if (after === undefined) return;
  addReserved(capacity.reserved, after);
  eachHost(capacity, after.gpus, (host, mask) => {
    setReserved(capacity, host, host.reservedMask | mask);
  });
}

function setReserved(capacity: Capacity, host: PoolHost, reservedMask: number): void {
  setMasks(capacity, host, { reservedMask });
  settleStranded(capacity, host);
}

/** A host answers again, falls silent, or is drained, whole or in part. */
export function noteStatus(capacity: Capacity, id: HostId, status: HostStatus | undefined): void {
  const host = capacity.hosts.get(id);
  if (host === undefined) return;
  const service = { hostCondition: hostConditionOf(status), drainedMask: drainedMask(status) };
  const isSame =
    host.hostCondition === service.hostCondition && host.drainedMask === service.drainedMask;
  if (isSame) return;
  setService(host, service);
  settleStranded(capacity, host);
  noteChange(capacity, host);
  noteLeaseChange(capacity, host);
  capacity.hostVersion = capacity.version;
}

function noteChange(capacity: Capacity, { pool }: PoolHost): void {
  capacity.version = capacity.lastVersion += 1;
  pool.changedAt = capacity.version;
}

function noteLeaseChange(capacity: Capacity, host: PoolHost): void {
  capacity.leaseVersion = host.leasesChangedAt = capacity.version;
}

/** From so many hosts on those of a list are remembered: a gang comes and goes many times in a cycle. */
const LONG = 8;

/** Those that the fleet has, in order. */
function eachHost(
  capacity: Capacity,
  gpus: readonly HostGpus[],
  visit: (host: PoolHost, mask: number) => void,
): void {
  const known = gpus.length < LONG ? undefined : hostsOn(capacity, gpus);
  let at = 0;
  for (const { host: id, mask } of gpus) {
    const host = known === undefined ? capacity.hosts.get(id) : known[at];
    if (host !== undefined) visit(host, mask);
    at += 1;
  }
}

/** Of long lists remembered. */
export function hostsOn(
  { hosts, hostsOf }: Capacity,
  gpus: readonly HostGpus[],
): readonly (PoolHost | undefined)[] {
  const known = hostsOf.get(gpus);
  if (known !== undefined) return known;
  const found = gpus.map(({ host }) => hosts.get(host));
  hostsOf.set(gpus, found);
  return found;
}

/**
 * Only a lease that says what it takes strands GPUs. Which they are depends on leases and reservations as they are, not on the order in which
 * they came: so a trial that is taken back leaves what was, and a capacity that follows events is that of a fresh look at their ledger.
 */
function settleStranded(capacity: Capacity, host: PoolHost): void {
  const { uneven } = capacity.usage;
  if (host.strandedMask === 0 && (uneven.size === 0 || !uneven.has(host.id))) return;
  // A new version of the leases even for the same GPUs: they may be stranded by others of them now, which end at other times.
  setMasks(capacity, host, { leasedMask: strand(host, uneven) });
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
    const { budgets, places } = capacity.index;
    if (wattsLimit(cluster) < Infinity) keepWatts(capacity, cluster.id, more * gpuWatts);
    if (budgets.length > 0)
      for (const { name } of places.get(host.id)?.budgets ?? [])
        keepWatts(capacity, name, more * gpuWatts);
  }
  noteChange(capacity, host);
  if (change.leasedMask !== undefined) noteLeaseChange(capacity, host);
}

function keepWatts({ keptWatts }: Capacity, name: string, watts: number): void {
  keptWatts.set(name, (keptWatts.get(name) ?? 0) + watts);
}
