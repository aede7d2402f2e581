/**
 * @file Checks every invariant of a ledger from scratch: one line for each violation, nothing for a sound ledger.
 *
 * The numbers in front are those of DESIGN's list. Lines that begin with `over-use` are no fault of `apply` when a limit was lowered or a
 * host left the fleet's description: they remain until enough leases have ended. The check shares no bookkeeping with `apply` except the
 * definition of the limits. Cost: O(ledger). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { ClusterId, HostId, JobId, TenantId } from "../../../domain/values/ids.ts";
import { leaseId } from "../../../domain/values/ids.ts";
import {
  gpuCountOf,
  popCount,
  type HostGpus,
  type Lease,
  type Reservation,
} from "../../../domain/lease/lease.ts";
import { holdOf } from "./queue-holds.ts";
import { indexFleet } from "./fleet-index.ts";
import { intakeFaults } from "./intake-faults.ts";
import { NEWEST_RULES, OLDEST_RULES, type Ledger } from "../ledger.ts";
import { quotaLimit, wattsLimit, WATTS_EPSILON } from "./limits.ts";

export function checkLedger(ledger: Ledger): string[] {
  return [
    ...overlaps(ledger),
    ...[...ledger.leases.values()].flatMap((lease) => leaseFaults(lease, ledger)),
    ...requestFaults(ledger),
    ...estimateFaults(ledger),
    ...reservationFaults(ledger),
    ...evictionFaults(ledger),
    ...opportunisticFaults(ledger),
    ...bookFaults(ledger),
    ...intakeFaults(ledger),
    ...labelFaults(ledger),
    ...holdFaults(ledger),
    ...overUse(ledger),
  ];
}

/** Nothing is reserved for a request that is held, but what a job keeps that was stopped to be moved. */
function holdFaults({ holds, reservations, requests }: Ledger): string[] {
  return [...(reservations?.values() ?? [])].flatMap(({ jobId, kind }) => {
    const request = requests.get(jobId);
    const isOpen = kind === "keep" || kind === "headroom" || request === undefined;
    return isOpen || holdOf(holds, request) === undefined
      ? []
      : [`6: GPUs are reserved for ${jobId}, which is held`];
  });
}

function overlaps({ leases }: Ledger): string[] {
  const holders = new Map<string, Lease>();
  const faults: string[] = [];
  for (const lease of leases.values()) {
    for (const { host, mask } of lease.gpus) {
      if (lease.state === "vacating" && !(lease.vacatingHosts ?? []).includes(host)) continue;
      for (let gpu = 0; gpu < 30; gpu += 1) {
        if ((mask & (1 << gpu)) === 0) continue;
        const other = holders.get(`${host} ${gpu}`);
        if (other !== undefined)
          faults.push(`1: GPU ${gpu} of ${host} is in ${other.id} and ${lease.id}`);
        holders.set(`${host} ${gpu}`, lease);
      }
    }
  }
  return faults;
}

function leaseFaults(lease: Lease, { nextToken, outbox, leases }: Ledger): string[] {
  const { id, token, gpus, state, vacatingHosts, vacatedHosts } = lease;
  const names = gpus.map(({ host }) => host);
  const isWithin = (hosts: readonly HostId[]): boolean =>
    new Set(hosts).size === hosts.length && hosts.every((host) => names.includes(host));
  const claims: readonly (readonly [boolean, string])[] = [
    [
      gpus.length > 0 && gpus.every(({ mask }) => popCount(mask) > 0),
      `2: ${id} has hosts without GPUs`,
    ],
    [
      names.every((host, at) => at === 0 || (names[at - 1] ?? "") < host),
      `2: hosts of ${id} are not in order`,
    ],
    [id === leaseId(token) && leases.get(id) === lease, `1: ${id} has token ${token}`],
    [
      lease.slots === undefined || lease.slots === 1 || gpus.length === 1,
      `2: ${id} has ${lease.slots} gangs over ${gpus.length} hosts`,
    ],
    [token < nextToken, `1: ${id} has a token from the future; the next is ${nextToken}`],
    [
      (state === "granted") === outbox.has(id),
      `4: ${id} is ${state}, and its grant does not fit that`,
    ],
    [
      (state === "vacating") === (vacatingHosts !== undefined),
      `3: ${id} is ${state} with vacating hosts`,
    ],
    [
      vacatingHosts === undefined || vacatingHosts.length > 0,
      `3: ${id} waits for no host and is not released`,
    ],
    [isWithin(vacatingHosts ?? []), `3: ${id} waits for hosts that it has not`],
    [isWithin(vacatedHosts ?? []), `3: ${id} has word from hosts that it has not`],
    [
      state !== "vacating" || vacatedHosts === undefined,
      `3: ${id} is vacating and remembers early words`,
    ],
  ];
  return claims.flatMap(([isKept, fault]) => (isKept ? [] : [fault]));
}

function estimateFaults({ ownEstimates = [], requests }: Ledger): string[] {
  return ownEstimates.flatMap(({ outcome }) =>
    outcome.kind === "waits" && !requests.has(outcome.jobId)
      ? [`an estimate waits for the start of ${outcome.jobId}, which asks for nothing`]
      : [],
  );
}

function requestFaults({ requests, leases, reasons, nextArrival }: Ledger): string[] {
  const faults: string[] = [];
  let lastArrival = 0;
  for (const [job, request] of requests) {
    if (request.slots === 0) faults.push(`4: the request of ${job} asks for nothing`);
    if (request.jobId !== job)
      faults.push(`4: the request of ${request.jobId} is kept under ${job}`);
    if (request.arrival <= lastArrival || request.arrival >= nextArrival) {
      faults.push(`4: the request of ${job} has arrival ${request.arrival} after ${lastArrival}`);
    }
    lastArrival = request.arrival;
  }
  for (const { id, jobId, runId, seq, state } of leases.values()) {
    const request = requests.get(jobId);
    // What an array still wants waits on under the same number; what its job has denied to have had is vacating.
    const answeredUpTo = request?.slots === undefined ? seq : seq - 1;
    const isAnswer = request?.runId === runId && request.seq <= answeredUpTo;
    if (isAnswer && state !== "vacating") {
      faults.push(`4: request ${request.seq} of ${jobId} waits although ${id} answered it`);
    }
    if (request !== undefined && request.runId !== runId && state !== "vacating") {
      faults.push(`3: ${id} is ${state} although run ${request.runId} of ${jobId} asks again`);
    }
  }
  for (const [job, { wakeOn, holders }] of reasons) {
    if (!requests.has(job)) faults.push(`5: there is a reason but no request of ${job}`);
    if (wakeOn.length === 0) faults.push(`5: nothing would wake ${job}`);
    if (holders.length > 8) faults.push(`5: the reason of ${job} names ${holders.length} holders`);
  }
  return faults;
}

function reservationFaults({
  reservations = new Map<JobId, Reservation>(),
  requests,
  leases,
}: Ledger): string[] {
  const faults: string[] = [];
  const owners = new Map<string, JobId>();
  for (const [job, { jobId, gpus, kind, untilMs }] of reservations) {
    if ((kind === "replace") !== (untilMs !== undefined))
      faults.push(`7: GPUs are kept for ${job} without an end, or reserved with one`);
    if (jobId !== job) faults.push(`7: the reservation of ${jobId} is kept under ${job}`);
    if (kind === "headroom" && ![...leases.values()].some((lease) => lease.jobId === job))
      faults.push(`7: GPUs are being freed in the name of ${job}, which runs no more`);
    if ((kind === "preemption" || kind === "backfill") && !requests.has(job))
      faults.push(`7: GPUs are reserved for ${job}, which waits no more`);
    if (gpus.length === 0) faults.push(`7: nothing is reserved for ${job}`);
    for (const { host, mask } of gpus) {
      for (let gpu = 0; gpu < 30; gpu += 1) {
        if ((mask & (1 << gpu)) === 0) continue;
        const other = owners.get(`${host} ${gpu}`);
        if (other !== undefined)
          faults.push(`7: GPU ${gpu} of ${host} is reserved for ${other} and ${job}`);
        owners.set(`${host} ${gpu}`, job);
      }
    }
  }
  return faults;
}

function evictionFaults({ leases, reservations, evictions = [] }: Ledger): string[] {
  const faults: string[] = [];
  for (const { id, gpus, eviction, state, terms, headroomGpus = 0 } of leases.values()) {
    if (headroomGpus > gpuCountOf(gpus))
      faults.push(`7: for ${id} others were told to free ${headroomGpus} GPUs, more than it has`);
    if (eviction === undefined) continue;
    const { forJob, isSent, keep = [] } = eviction;
    if (terms === undefined) faults.push(`7: ${id} is given up without terms`);
    if (isSent !== true && state !== "vacating" && reservations?.has(forJob) !== true)
      faults.push(`7: ${id} is given up for ${forJob}, for which nothing is reserved`);
    const isPart = keep.every(({ host, mask }) =>
      gpus.some((part) => part.host === host && (part.mask & mask) === mask),
    );
    if (!isPart) faults.push(`7: ${id} is to keep GPUs that it has not`);
  }
  const times = evictions.map(({ atMs }) => atMs);
  if (times.some((atMs, at) => at > 0 && atMs < (times[at - 1] ?? 0)))
    faults.push("7: the evictions are not in order of time");
  return faults;
}

/** GPUs in opportunistic use are part of the lease, and reserved for a job. */
function opportunisticFaults({
  leases,
  reservations = new Map<JobId, Reservation>(),
}: Ledger): string[] {
  const holds = (parts: readonly HostGpus[], { host, mask }: HostGpus): boolean =>
    parts.some((part) => part.host === host && (part.mask & mask) === mask);
  const apart = [...reservations.values()].flatMap(({ gpus }) => gpus);
  return [...leases.values()].flatMap(({ id, gpus, opportunistic }) => {
    if (opportunistic === undefined) return [];
    const isPart =
      opportunistic.gpus.length > 0 && opportunistic.gpus.every((part) => holds(gpus, part));
    const isApart = opportunistic.gpus.every(({ host, mask }) => {
      const masks = apart.flatMap((part) => (part.host === host ? [part.mask] : []));
      return (mask & ~masks.reduce((all, own) => all | own, 0)) === 0;
    });
    return [
      ...(isPart ? [] : [`7: ${id} uses GPUs opportunistically that are not in its lease`]),
      ...(isApart ? [] : [`7: ${id} uses GPUs opportunistically that are reserved for no job`]),
    ];
  });
}

function bookFaults({ applyVersion, leases, outbox, deadLetters }: Ledger): string[] {
  const faults: string[] = [];
  if (!(applyVersion >= OLDEST_RULES && applyVersion <= NEWEST_RULES))
    faults.push(`9: the rules are version ${applyVersion}, not ${OLDEST_RULES} to ${NEWEST_RULES}`);
  for (const id of outbox.keys())
    if (!leases.has(id)) faults.push(`4: a grant of ${id} waits, but no such lease`);
  if (deadLetters.length > 50) faults.push(`4: there are ${deadLetters.length} dead letters`);
  let last = -1;
  const runs = new Map<string, Lease>();
  for (const lease of leases.values()) {
    if (lease.token <= last) faults.push(`1: token ${lease.token} comes after ${last}`);
    last = lease.token;
    if (lease.state === "vacating") continue;
    const other = runs.get(lease.jobId);
    if (other !== undefined && other.runId !== lease.runId) {
      faults.push(`3: ${other.id} and ${lease.id} are of two runs of ${lease.jobId}`);
    }
    runs.set(lease.jobId, lease);
  }
  return faults;
}

/** Jobs of one tenant with the same label never share a host. */
function labelFaults({ leases }: Ledger): string[] {
  const faults: string[] = [];
  const jobs = new Map<string, Lease>();
  for (const lease of leases.values()) {
    const { tenant, jobId, gpus, state, vacatingHosts, terms } = lease;
    const label = terms?.constraints.antiAffinity;
    if (label === undefined) continue;
    for (const { host } of gpus) {
      if (state === "vacating" && vacatingHosts?.includes(host) !== true) continue;
      const other = jobs.get(`${host} ${tenant} ${label}`);
      if (other !== undefined && other.jobId !== jobId)
        faults.push(`6: ${host} has ${other.id} and ${lease.id} of label ${label}`);
      jobs.set(`${host} ${tenant} ${label}`, lease);
    }
  }
  return faults;
}

function overUse({ shape, leases }: Ledger): string[] {
  const { places, tenants, clusters, budgets } = indexFleet(shape);
  const watts = new Map<ClusterId, number>();
  const budgetWatts = new Map<string, number>();
  const held = new Map<TenantId, Map<string, { gpus: number; limit: number }>>();
  for (const { tenant, gpus, state, vacatingHosts } of leases.values()) {
    for (const { host, mask } of gpus) {
      const place = places.get(host);
      if (place === undefined || (state === "vacating" && !vacatingHosts?.includes(host))) continue;
      const { id } = place.cluster;
      const drawn = popCount(mask) * place.host.gpuWatts;
      watts.set(id, (watts.get(id) ?? 0) + drawn);
      for (const { name } of place.budgets ?? [])
        budgetWatts.set(name, (budgetWatts.get(name) ?? 0) + drawn);
      const limit = quotaLimit(tenants.get(tenant), place.host.gpuType);
      if (limit === undefined) continue;
      const keys = held.get(tenant) ?? new Map<string, { gpus: number; limit: number }>();
      const before = keys.get(limit.key)?.gpus ?? 0;
      held.set(tenant, keys.set(limit.key, { gpus: before + popCount(mask), limit: limit.gpus }));
    }
  }
  return [
    ...[...held].flatMap(([tenant, keys]) =>
      [...keys].flatMap(([key, { gpus, limit }]) =>
        gpus > limit
          ? [`over-use (6): tenant ${tenant} holds ${gpus} of ${limit} GPUs (${key})`]
          : [],
      ),
    ),
    ...clusters.flatMap((cluster) => {
      const drawn = watts.get(cluster.id) ?? 0;
      const limit = wattsLimit(cluster);
      return drawn > limit + WATTS_EPSILON
        ? [`over-use (6): ${cluster.id} draws ${drawn} of ${limit} W`]
        : [];
    }),
    ...budgets.flatMap(({ name, limitWatts }) => {
      const drawn = budgetWatts.get(name) ?? 0;
      return drawn > limitWatts + WATTS_EPSILON
        ? [`over-use (6): ${name} draws ${drawn} of ${limitWatts} W`]
        : [];
    }),
    ...beyondHosts(leases.values(), places),
  ];
}

function beyondHosts(
  leases: Iterable<Lease>,
  places: ReturnType<typeof indexFleet>["places"],
): string[] {
  const faults: string[] = [];
  for (const { id, gpus } of leases) {
    for (const { host, mask } of gpus) {
      const place = places.get(host);
      if (place === undefined)
        faults.push(`over-use (6): ${id} holds GPUs of ${host}, which the fleet lacks`);
      else if (mask >= 2 ** place.host.gpuCount)
        faults.push(`over-use (6): ${id} holds more than ${host} has`);
    }
  }
  return faults;
}
