/**
 * @file A planner that plays dice: grants of any size that fits and some that do not, plans for a ledger of long ago, evictions for no good reason.
 *
 * The ledger must stand all of it. Once the world is calm it serves the queue in its order, so that whatever can run does.
 */

import { gpuCountOf, popCount, type HostGpus } from "../domain/lease/lease.ts";
import type {
  EvictItem,
  PendingRequest,
  Plan,
  PlanItem,
  ReserveItem,
} from "../domain/lease/plan.ts";
import type { HostId } from "../domain/values/ids.ts";
import { shuffled, type Random } from "../lib/random.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import { drainedMask } from "../scheduling/ledger/rules/gpu-drains.ts";
import { takenGpus } from "../scheduling/ledger/rules/usage.ts";
import type { Planner } from "./shells/fleet.ts";

const WAKE_MS = 5_000;
/** One in so many plans, or items. */
const STALE_IN = 12;
const WRONG_IN = 25;
const EVICT_IN = 10;
const RESERVE_IN = 15;

export function randomPlanner(random: Random, isCalm: () => boolean): Planner {
  let former: Ledger | undefined;
  return (present, nowMs) => {
    const isStale = !isCalm() && former !== undefined && random.below(STALE_IN) === 0;
    const ledger = (isStale ? former : undefined) ?? present;
    former = random.below(3) === 0 ? present : former;
    const items = isCalm() ? grantsInOrder(ledger) : someGrants(ledger, random);
    const isAnyLeft = ledger.requests.size > items.length;
    return {
      items,
      pending: ledger === present ? homeless(present) : [],
      reserve: isCalm() ? noReservations(ledger) : someReservations(ledger, random),
      evict: isCalm() ? [] : someEvictions(ledger, random),
      ...(isAnyLeft && { wakeAtMs: nowMs + WAKE_MS }),
      stats: { method: "decide", candidates: 1 },
    } satisfies Plan;
  };
}

function grantsInOrder(ledger: Ledger): readonly PlanItem[] {
  const free = inService(ledger);
  const items: PlanItem[] = [];
  for (const request of ledger.requests.values()) {
    // An array may ask for more than it has.
    if (request.slots === undefined && hasLease(ledger, request)) continue;
    if (homelessCode(ledger, request) !== undefined) continue;
    const grant = grantInOneCluster(ledger, free, withinQuota(ledger, request));
    // Whoever cannot have them yet is passed over only by those of its own tenant's limits.
    if (grant === undefined) break;
    items.push(grant);
  }
  return items;
}

/** An array that asks for no more places than its tenant may still hold, and for one at least: of too many the ledger grants none. */
function withinQuota(ledger: Ledger, request: PendingRequest): PendingRequest {
  const { tenant, gang, slots } = request;
  const { quota, borrowingLimit = 0 } = ledger.shape.tenants.find(({ id }) => id === tenant) ?? {};
  if (slots === undefined || quota === undefined) return request;
  const most = Math.min(...Object.values(quota)) + borrowingLimit;
  let held = 0;
  for (const lease of ledger.leases.values())
    if (lease.tenant === tenant) held += gpuCountOf(takenGpus(lease));
  const places = Math.max(1, Math.floor((most - held) / gang.gpus));
  return { ...request, slots: Math.min(slots, places) };
}

function grantInOneCluster(
  { shape }: Ledger,
  free: Map<HostId, number>,
  request: PendingRequest,
): PlanItem | undefined {
  for (const { hosts } of shape.clusters) {
    const ids = hosts.map(({ id }) => id);
    const grant = grantOn(free, request, allowed(ids, request));
    if (grant !== undefined) return grant;
  }
  return undefined;
}

/** A gang on the first of these hosts; of an array as many of its gangs as one host has room for. */
function grantOn(
  free: Map<HostId, number>,
  request: PendingRequest,
  hosts: readonly HostId[],
): PlanItem | undefined {
  const { gang, slots } = request;
  for (const host of slots === undefined ? [] : hosts) {
    const room = Math.floor(popCount(free.get(host) ?? 0) / gang.gpus);
    const most = Math.min(room, slots ?? 0);
    const gpus = most > 0 ? taken(free, most * gang.gpus, [host]) : undefined;
    if (gpus !== undefined) return { ...grantOf(request, gpus), slots: most };
  }
  const gpus = taken(free, gang.gpus, hosts);
  if (gpus === undefined) return undefined;
  return { ...grantOf(request, gpus), ...(slots !== undefined && { slots: 1 }) };
}

function someGrants(ledger: Ledger, random: Random): readonly PlanItem[] {
  const free = freeMasks(ledger);
  return shuffled([...ledger.requests.values()], random).flatMap((request) => {
    if (random.below(5) === 0) return [];
    if (random.below(WRONG_IN) === 0) return [wrongGrant(ledger, request, random)];
    return grantOn(free, request, allowed(shuffled([...free.keys()], random), request)) ?? [];
  });
}

const allowed = (
  hosts: readonly HostId[],
  { avoidHosts = [] }: PendingRequest,
): readonly HostId[] => hosts.filter((host) => !avoidHosts.includes(host));

/** It has been refused by so many hosts that the others, or those of them that answer, have too few GPUs. */
function homelessCode(
  ledger: Ledger,
  { gang, avoidHosts = [] }: PendingRequest,
): "NoMatchingFlavor" | "WaitingForHosts" | undefined {
  const hosts = ledger.shape.clusters.flatMap((cluster) => cluster.hosts);
  const left = hosts.filter(({ id }) => !avoidHosts.includes(id));
  // A gang lies in one cluster: no links lead from one to another.
  const has = (those: typeof left): boolean =>
    ledger.shape.clusters.some(
      (cluster) =>
        those
          .filter((host) => cluster.hosts.includes(host))
          .reduce((sum, { gpuCount }) => sum + gpuCount, 0) >= gang.gpus,
    );
  if (!has(left)) return "NoMatchingFlavor";
  return has(left.filter(({ id }) => isUsable(ledger, id))) ? undefined : "WaitingForHosts";
}

/** Jobs that are to be told that no host is left for them. */
const homeless = (ledger: Ledger): Plan["pending"] =>
  [...ledger.requests.values()].flatMap((request) => {
    const code = homelessCode(ledger, request);
    if (code === undefined) return [];
    const { jobId, runId, seq } = request;
    const reason = {
      code,
      message: "no host is left",
      numbers: {},
      holders: [],
      wakeOn: ["timer"],
    } as const;
    return [{ request: { jobId, runId, seq }, reason }];
  });

const hasLease = ({ leases }: Ledger, { jobId }: PendingRequest): boolean =>
  [...leases.values()].some((lease) => lease.jobId === jobId);

const grantOf = ({ jobId, runId, seq }: PendingRequest, gpus: readonly HostGpus[]): PlanItem => ({
  kind: "grant",
  request: { jobId, runId, seq },
  gpus,
  reason: "by chance",
});

/** On GPUs that are another's, too many, or for a request that is not there. */
function wrongGrant(ledger: Ledger, request: PendingRequest, random: Random): PlanItem {
  const hosts = ledger.shape.clusters.flatMap((cluster) => cluster.hosts);
  const host = hosts[random.below(hosts.length)];
  const gpus = host === undefined ? [] : [{ host: host.id, mask: 1 + random.below(15) }];
  const item = grantOf(request, gpus);
  return random.below(2) === 0
    ? item
    : { ...item, request: { ...item.request, seq: request.seq + 1 } };
}

function someEvictions(ledger: Ledger, random: Random): readonly EvictItem[] {
  if (random.below(EVICT_IN) !== 0) return [];
  const leases = [...ledger.leases.values()];
  const requests = [...ledger.requests.values()];
  const lease = leases[random.below(Math.max(1, leases.length))];
  const request = requests[random.below(Math.max(1, requests.length))];
  if (lease === undefined || request === undefined) return [];
  return [
    {
      kind: "evict",
      lease: lease.id,
      forJob: request.jobId,
      lostGpuSeconds: 1,
      reason: "by chance",
    },
  ];
}

function someReservations(ledger: Ledger, random: Random): readonly ReserveItem[] {
  if (random.below(RESERVE_IN) !== 0) return [];
  const requests = [...ledger.requests.values()];
  const request = requests[random.below(Math.max(1, requests.length))];
  if (request === undefined) return [];
  const gpus = taken(freeMasks(ledger), 1, [...freeMasks(ledger).keys()]) ?? [];
  return [{ jobId: request.jobId, gpus, kind: "backfill" }];
}

const noReservations = ({ reservations }: Ledger): readonly ReserveItem[] =>
  [...(reservations?.values() ?? [])]
    .filter(({ kind }) => kind === "backfill" || kind === "preemption")
    .map(({ jobId, kind }) => ({ jobId, gpus: [], kind }));

function isUsable({ hosts }: Ledger, id: HostId): boolean {
  const status = hosts.get(id);
  return (
    status?.agent !== undefined &&
    status.silentSinceMs === undefined &&
    status.isFenced !== true &&
    !status.isDrained
  );
}

/** GPUs that no lease has, of hosts that answer. */
function freeMasks(ledger: Ledger): Map<HostId, number> {
  const free = new Map<HostId, number>();
  for (const { hosts } of ledger.shape.clusters)
    for (const { id, gpuCount } of hosts) if (isUsable(ledger, id)) free.set(id, 2 ** gpuCount - 1);
  for (const { gpus } of ledger.leases.values())
    for (const { host, mask } of gpus) free.set(host, (free.get(host) ?? 0) & ~mask);
  return free;
}

/** The same without those that are drained alone, which the dice offer as well. */
function inService(ledger: Ledger): Map<HostId, number> {
  const free = freeMasks(ledger);
  for (const [id, mask] of free) free.set(id, mask & ~drainedMask(ledger.hosts.get(id)));
  return free;
}

/** Takes so many from the hosts in this order; undefined, and nothing, where there are not so many. */
function taken(
  free: Map<HostId, number>,
  count: number,
  hosts: readonly HostId[],
): readonly HostGpus[] | undefined {
  let left = count;
  const parts: HostGpus[] = [];
  for (const host of hosts) {
    let mask = 0;
    for (let gpu = 0; gpu < 30 && left > 0; gpu += 1) {
      const bit = 1 << gpu;
      if (((free.get(host) ?? 0) & bit) === 0) continue;
      mask |= bit;
      left -= 1;
    }
    if (mask !== 0) parts.push({ host, mask });
  }
  if (left > 0) return undefined;
  for (const { host, mask } of parts) free.set(host, (free.get(host) ?? 0) & ~mask);
  return parts.sort((a, b) => (a.host < b.host ? -1 : 1));
}
