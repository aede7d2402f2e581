/**
 * @file Packs one lease or reservation as a row, and unpacks it. New fields go to the end of a row.
 *
 * Cost: O(fields). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { jobId, leaseId, runId, tenantId, token } from "../../domain/values/ids.ts";
import type { GpuNeed } from "../../domain/job/job-resources.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import type {
  Eviction,
  HostGpus,
  Lease,
  LeaseTerms,
  Reservation,
} from "../../domain/lease/lease.ts";
import { longId, shortId } from "../../lib/short-uuid.ts";
import type { Shared, Tables } from "./codec-rows.ts";
import { keptLease, keptTerms } from "./kept-shape.ts";
import { at, entry, isRow, isThere, since, type Packed } from "./codec-values.ts";

export type LeaseRow = readonly [
  token: number,
  jobId: string,
  runId: string,
  seq: number,
  jobClass: number,
  tenant: number,
  granted: Packed,
  requested: Packed,
  state: number,
  /** Pairs: host, mask. */
  gpus: readonly number[],
  /** Hosts that are waited for when it is vacating, else hosts that have confirmed early. */
  hosts?: readonly number[] | null,
  slots?: number | null,
  isUnconfirmed?: 0 | 1,
  terms?: TermsRow | 0,
  eviction?: EvictionRow | 0,
  checkpointed?: Packed | null,
  causedLossGpuSeconds?: number | null,
  headroomGpus?: number | null,
  /** In use opportunistically, pairs: host, mask. */
  opportunistic?: readonly number[] | null,
  /** Of a lease that was only reported. */
  resources?: readonly [cpus: number | null, memoryGiB: number | null] | null,
];
type TermsRow = readonly [profile: number, submitted: Packed];
type EvictionRow = readonly [
  forJob: string,
  at: Packed,
  isSent: 0 | 1,
  lostGpuSeconds: number,
  /** Pairs: host, mask. */
  keep?: readonly number[],
];
export type ReservationRow = readonly [
  jobId: string,
  kind: number,
  sinceMs: number,
  /** Pairs: host, mask. */
  gpus: readonly number[],
  usableUntilMs?: number | null,
  lostGpuSeconds?: number | null,
  untilMs?: number,
];

const STATES = ["granted", "held", "vacating"] as const;
const RESERVATION_KINDS = ["preemption", "backfill", "keep", "headroom", "replace"] as const;

export function packLease(lease: Lease, former: Lease | undefined, shared: Shared): LeaseRow {
  const row = [
    lease.token - (former?.token ?? 0),
    lease.jobId,
    shortId(lease.runId),
    lease.seq,
    JOB_CLASSES.indexOf(lease.class),
    shared.texts.indexOf(lease.tenant),
    since(lease.grantedAtMs, former?.grantedAtMs),
    since(lease.requestedAtMs, lease.grantedAtMs),
    STATES.indexOf(lease.state),
    packGpus(lease.gpus, shared),
  ] as const;
  const { slots, terms, eviction, checkpointedAtMs, opportunistic, resources } = lease;
  const { causedLossGpuSeconds = null, headroomGpus = null } = lease;
  const optional = [
    (lease.vacatingHosts ?? lease.vacatedHosts)?.map(shared.hosts.indexOf) ?? null,
    slots ?? null,
    lease.isUnconfirmed === true ? 1 : 0,
    terms === undefined ? 0 : packTerms(lease, terms, shared),
    eviction === undefined ? 0 : packEviction(lease, eviction, shared),
    checkpointedAtMs === undefined ? null : since(checkpointedAtMs, lease.grantedAtMs),
    causedLossGpuSeconds,
    headroomGpus,
    opportunistic === undefined ? null : packGpus(opportunistic.gpus, shared),
    resources === undefined
      ? null
      : ([resources.cpus ?? null, resources.memoryGiB ?? null] as const),
  ] as const;
  // A row ends with its last optional field; 0 stands for an absent one only in the places of flags and rows.
  const isNoted = optional.map(
    (value, place) => value !== null && !(place in ZERO_IS_ABSENT && value === 0),
  );
  return [...row, ...optional.slice(0, isNoted.lastIndexOf(true) + 1)] as unknown as LeaseRow; // a prefix of its tuple
}

/** The indices of a row that refers to a tenant, a profile and hosts of the fleet's description, and to nothing else; undefined for others. */
export function leaseRefs(row: LeaseRow, knownHosts: number): LeaseRefs | undefined {
  const terms = row[TERMS];
  if (row.length !== TERMS + 1 || !isRow(terms) || isThere(row[10])) return undefined;
  if (entry(STATES, row[8]) === "vacating") return undefined;
  const gpus = row[9];
  for (let place = 0; place < gpus.length; place += 2)
    if (entry(gpus, place) >= knownHosts) return undefined;
  return { tenant: row[TENANT], profile: terms[0], gpus };
}

export interface LeaseRefs {
  readonly tenant: number;
  readonly profile: number;
  /** Pairs: host, mask. */
  readonly gpus: readonly number[];
}

/** Such a row with other indices. */
export const withRefs = (
  row: LeaseRow,
  { tenant, profile }: Pick<LeaseRefs, "tenant" | "profile">,
): LeaseRow =>
  row.map((part, place) => {
    if (place === TENANT) return tenant;
    return place === TERMS && Array.isArray(part) ? [profile, ...part.slice(1)] : part;
  }) as unknown as LeaseRow; // part by part

/** Places in a row. */
const TENANT = 5;
const TERMS = 13;

/** Places of `isUnconfirmed`, `terms` and `eviction` among the optional fields. */
const ZERO_IS_ABSENT: Readonly<Record<number, true>> = { 2: true, 3: true, 4: true };

/** With its class and tenant, what a lease keeps of its request is what waiting requests have in common. */
const packTerms = (
  { class: jobClass, tenant, grantedAtMs }: Lease,
  terms: LeaseTerms,
  shared: Shared,
): TermsRow => [
  shared.profiles.indexOf({ ...terms, class: jobClass, tenant }),
  since(terms.submittedAtMs, grantedAtMs),
];

function unpackTerms(
  [profile, submitted]: TermsRow,
  grantedAtMs: number,
  names: Tables,
): LeaseTerms {
  return keptTerms(entry(names.profiles, profile), at(submitted, grantedAtMs));
}

function packEviction({ grantedAtMs }: Lease, eviction: Eviction, shared: Shared): EvictionRow {
  const { forJob, atMs, isSent, keep, lostGpuSeconds } = eviction;
  const sent = isSent === true ? 1 : 0;
  const row = [forJob, since(atMs, grantedAtMs), sent, lostGpuSeconds] as const;
  return keep === undefined ? row : [...row, packGpus(keep, shared)];
}

function unpackEviction(
  [forJob, atPacked, isSent, lostGpuSeconds, keep]: EvictionRow,
  grantedAtMs: number,
  names: Tables,
): Eviction {
  return {
    forJob: jobId(forJob),
    atMs: at(atPacked, grantedAtMs),
    ...(isSent === 1 && { isSent: true as const }),
    ...(keep !== undefined && { keep: unpackGpus(keep, names) }),
    lostGpuSeconds,
  };
}

export function packReservation(reservation: Reservation, shared: Shared): ReservationRow {
  const { jobId: job, kind, sinceMs, gpus, usableUntilMs, lostGpuSeconds, untilMs } = reservation;
  const row = [job, RESERVATION_KINDS.indexOf(kind), sinceMs, packGpus(gpus, shared)] as const;
  if (untilMs !== undefined)
    return [...row, usableUntilMs ?? null, lostGpuSeconds ?? null, untilMs];
  if (lostGpuSeconds !== undefined) return [...row, usableUntilMs ?? null, lostGpuSeconds];
  return usableUntilMs === undefined ? row : [...row, usableUntilMs];
}

export function unpackReservation(
  [job, kind, sinceMs, gpus, usableUntilMs, lostGpuSeconds, untilMs]: ReservationRow,
  names: Tables,
): Reservation {
  return {
    jobId: jobId(job),
    gpus: unpackGpus(gpus, names),
    sinceMs,
    kind: entry(RESERVATION_KINDS, kind),
    ...(isThere(usableUntilMs) && { usableUntilMs }),
    ...(isThere(lostGpuSeconds) && { lostGpuSeconds }),
    ...(untilMs !== undefined && { untilMs }),
  };
}

function packGpus(gpus: readonly HostGpus[], { hosts }: Shared): readonly number[] {
  const pairs: number[] = [];
  for (const { host, mask } of gpus) pairs.push(hosts.indexOf(host), mask);
  return pairs;
}

function unpackGpus(pairs: readonly number[], { hosts }: Tables): readonly HostGpus[] {
  const gpus: HostGpus[] = [];
  for (let place = 0; place < pairs.length; place += 2)
    gpus.push({ host: entry(hosts, entry(pairs, place)), mask: entry(pairs, place + 1) });
  return gpus;
}

const unpackNeed = ([cpus, memoryGiB]: readonly [number | null, number | null]): GpuNeed => ({
  ...(cpus !== null && { cpus }),
  ...(memoryGiB !== null && { memoryGiB }),
});

export function unpackLease(row: LeaseRow, former: Lease | undefined, names: Tables): Lease {
  const own = token((former?.token ?? 0) + row[0]);
  const state = entry(STATES, row[8]);
  const grantedAtMs = at(row[6], former?.grantedAtMs);
  const [hosts, slots, isUnconfirmed, terms, eviction] = [
    row[10],
    row[11],
    row[12],
    row[13],
    row[14],
  ];
  const [checkpointed, caused, headroomGpus, opportunistic] = [row[15], row[16], row[17], row[18]];
  const named = hosts?.map((host) => entry(names.hosts, host));
  // Field by field: spreading a small object for each optional field of thousands of leases costs more than all else.
  return keptLease({
    id: leaseId(own),
    token: own,
    jobId: jobId(row[1]),
    runId: runId(longId(row[2])),
    seq: row[3],
    class: entry(JOB_CLASSES, row[4]),
    tenant: tenantId(entry(names.texts, row[5])),
    gpus: unpackGpus(row[9], names),
    grantedAtMs,
    requestedAtMs: at(row[7], grantedAtMs),
    state,
    terms: isRow(terms) ? unpackTerms(terms, grantedAtMs, names) : undefined,
    slots: slots ?? undefined,
    vacatingHosts: state === "vacating" ? named : undefined,
    vacatedHosts: state === "vacating" ? undefined : named,
    isUnconfirmed: isUnconfirmed === 1 ? true : undefined,
    eviction: isRow(eviction) ? unpackEviction(eviction, grantedAtMs, names) : undefined,
    checkpointedAtMs: isThere(checkpointed) ? at(checkpointed, grantedAtMs) : undefined,
    causedLossGpuSeconds: caused ?? undefined,
    headroomGpus: headroomGpus ?? undefined,
    opportunistic: isThere(opportunistic) ? { gpus: unpackGpus(opportunistic, names) } : undefined,
    resources: isThere(row[19]) ? unpackNeed(row[19]) : undefined,
  });
}
