/**
 * @file A ledger while events change it: every map is copied once, what changed is noted, and whoever watches is told.
 *
 * `apply` opens a draft for one event; a session keeps one open over many, so that an event costs what it changes. An event
 * that changes nothing gives the very same ledger back. What is worked out from the maps (the leases of a job, what is taken, what is
 * reserved, who is being evicted) is built when it is first asked for and kept up to date from then on.
 * Cost: O(ledger) to open, O(1) a change.
 */

import type { RefusalCode } from "../domain/codes.ts";
import type { FleetShape } from "../domain/fleet.ts";
import type { ClusterId, HostId, JobId, LeaseId } from "../domain/ids.ts";
import type { Lease, LeaseFact, RequestKey, Reservation } from "../domain/lease.ts";
import type { PendingReason } from "../domain/pending.ts";
import type { PendingRequest } from "../domain/plan.ts";
import type { SiteLink } from "../domain/site-link.ts";
import { indexFleet, type FleetIndex } from "./fleet-index.ts";
import { withoutJob, type Foreseen } from "./foreseen.ts";
import {
  heldBy as latencyGpus,
  noteDemand,
  openDemand,
  traceOf,
  wantedBy,
  type DemandBook,
} from "./latency-demand.ts";
import type {
  Applied,
  DeadLetter,
  EvictionNote,
  HostStanding,
  Ledger,
  OutboxGrant,
  Refusal,
  RunNote,
  ServiceAccount,
  ServingModel,
} from "./ledger.ts";
import { isMassSilence } from "./mass-silence.ts";
import { addReserved, dropReserved, reservedOf, type Reserved } from "./reserved.ts";
import { notesAfter } from "./runs.ts";
import {
  accountOf,
  noteLease,
  noteRequest,
  noteShape,
  openBook,
  settle,
  type ServiceBook,
} from "./service.ts";
import { heldBy, release, take, usageOf, type Usage } from "./usage.ts";

/** Is told of every change, after it was made; `before` is absent of what is new, `after` of what is gone. */
export interface DraftWatcher {
  readonly request?: (
    before: PendingRequest | undefined,
    after: PendingRequest | undefined,
  ) => void;
  readonly lease?: (before: Lease | undefined, after: Lease | undefined) => void;
  readonly reservation?: (before: Reservation | undefined, after: Reservation | undefined) => void;
  readonly host?: (host: HostId) => void;
  readonly shape?: (shape: FleetShape) => void;
}

export interface Draft {
  readonly before: Ledger;
  readonly watcher: DraftWatcher;
  shape: Ledger["shape"];
  detailsHash: string | undefined;
  nextToken: number;
  nextArrival: number;
  readonly requests: Map<JobId, PendingRequest>;
  readonly reasons: Map<JobId, PendingReason>;
  readonly leases: Map<LeaseId, Lease>;
  readonly hosts: Map<HostId, HostStanding>;
  readonly outbox: Map<LeaseId, OutboxGrant>;
  readonly reservations: Map<JobId, Reservation>;
  readonly deadLetters: DeadLetter[];
  readonly models: Map<ClusterId, ServingModel>;
  readonly links: Map<string, SiteLink>;
  service: ServiceAccount | undefined;
  evictions: readonly EvictionNote[];
  runs: readonly RunNote[];
  foreseen: readonly Foreseen[];
  /** Of the events since they were taken. */
  refusals: Refusal[];
  granted: LeaseId[];
  disowned: LeaseFact[];
  needsDecision: boolean;
  /** Of all events since the draft was opened. */
  isChanged: boolean;
  /** What was the case before this event, where a host has changed in it. */
  wasMassSilent: boolean | undefined;
  /** The time of the event that is being applied. */
  nowMs: number;
  /** Who was served how much, from when it is first to change. */
  book?: ServiceBook;
  /** The same of the demand of inference jobs. */
  demand?: DemandBook;
  index?: FleetIndex | undefined;
  usage?: Usage | undefined;
  reserved?: Reserved;
  leaseIdsByJob?: Map<JobId, Set<LeaseId>>;
  evictingIds?: Set<LeaseId>;
  lentIds?: Set<LeaseId>;
}

/** Dead letters that are kept. */
const MAX_DEAD_LETTERS = 50;
const DEAD_LETTER_CHARACTERS = 500;

export function openDraft(before: Ledger, watcher: DraftWatcher = {}): Draft {
  return {
    before,
    watcher,
    shape: before.shape,
    detailsHash: before.detailsHash,
    nextToken: before.nextToken,
    nextArrival: before.nextArrival,
    requests: new Map(before.requests),
    reasons: new Map(before.reasons),
    leases: new Map(before.leases),
    hosts: new Map(before.hosts),
    outbox: new Map(before.outbox),
    reservations: new Map(before.reservations),
    deadLetters: [...before.deadLetters],
    models: new Map(before.models),
    links: new Map(before.links),
    service: before.service,
    evictions: before.evictions ?? [],
    runs: before.runs ?? [],
    foreseen: before.foreseen ?? [],
    refusals: [],
    granted: [],
    disowned: [],
    needsDecision: false,
    isChanged: false,
    wasMassSilent: undefined,
    nowMs: 0,
  };
}

export function closeDraft(draft: Draft): Applied {
  return { ledger: draft.isChanged ? ledgerOf(draft) : draft.before, ...takeOutcome(draft) };
}

/** What came of the events since this was last asked. */
export function takeOutcome(draft: Draft): Omit<Applied, "ledger"> {
  const { refusals, granted, disowned, needsDecision } = draft;
  draft.refusals = [];
  draft.granted = [];
  draft.disowned = [];
  draft.needsDecision = false;
  return { refusals, granted, disowned, needsDecision };
}

/** The ledger as it is now. It shares the draft's maps: of an open draft it is good until the next event. */
export function ledgerOf(draft: Draft): Ledger {
  const { before, detailsHash, reservations, evictions, runs, foreseen, models, links } = draft;
  const service = draft.book === undefined ? draft.service : accountOf(draft.book);
  const latencyDemand = draft.demand === undefined ? before.latencyDemand : traceOf(draft.demand);
  const { shape, nextToken, nextArrival, requests, reasons, leases, hosts, outbox } = draft;
  return {
    applyVersion: before.applyVersion,
    shape,
    ...(detailsHash !== undefined && { detailsHash }),
    nextToken,
    nextArrival,
    requests,
    reasons,
    leases,
    hosts,
    outbox,
    deadLetters: draft.deadLetters.slice(-MAX_DEAD_LETTERS),
    ...(reservations.size > 0 && { reservations }),
    ...(service !== undefined && { service }),
    ...(evictions.length > 0 && { evictions }),
    ...(latencyDemand !== undefined && { latencyDemand }),
    ...(runs.length > 0 && { runs }),
    ...(foreseen.length > 0 && { foreseen }),
    ...(models.size > 0 && { models }),
    ...(links.size > 0 && { links }),
  };
}

/** Something that `decide` may answer differently to. */
export function noteChange(draft: Draft): void {
  draft.isChanged = true;
  draft.needsDecision = true;
}

export const indexOf = (draft: Draft): FleetIndex => (draft.index ??= indexFleet(draft.shape));

/** What is taken, by hosts, tenants and watts; kept up to date by `setLease`. */
export const usageIn = (draft: Draft): Usage =>
  (draft.usage ??= usageOf(draft.leases.values(), indexOf(draft)));

export const reservedIn = (draft: Draft): Reserved =>
  (draft.reserved ??= reservedOf(draft.reservations.values()));

/** Another description of the fleet: all that was worked out from the former one is void. */
export function setShape(draft: Draft, shape: FleetShape, detailsHash: string | undefined): void {
  noteShape(settledBook(draft), shape);
  draft.shape = shape;
  draft.detailsHash = detailsHash;
  draft.index = undefined;
  draft.usage = undefined;
  for (const cluster of draft.models.keys())
    if (!shape.clusters.some(({ id }) => id === cluster)) draft.models.delete(cluster);
  const sites = new Set(shape.clusters.map(({ site }) => site));
  for (const [key, { from, to }] of draft.links)
    if (!sites.has(from) || !sites.has(to)) draft.links.delete(key);
  draft.watcher.shape?.(shape);
  noteChange(draft);
}

/** Undefined: as good as one that was never heard of. */
export function setHost(draft: Draft, host: HostId, standing: HostStanding | undefined): void {
  draft.wasMassSilent ??= isMassSilence(draft.hosts);
  if (standing === undefined) draft.hosts.delete(host);
  else draft.hosts.set(host, standing);
  draft.isChanged = true;
  draft.watcher.host?.(host);
}

/** Before leases, requests or weights change: the account of service up to now. */
function settledBook(draft: Draft): ServiceBook {
  draft.book ??= openBook(draft);
  settle(draft.book, draft.nowMs);
  return draft.book;
}

/** Before leases and requests change. */
function countDemand(draft: Draft, moreGpus: number): void {
  if (moreGpus === 0) return;
  const { before, leases, requests } = draft;
  const { latencyDemand } = before;
  draft.demand ??= openDemand({ leases, requests, ...(latencyDemand && { latencyDemand }) });
  noteDemand(draft.demand, moreGpus, draft.nowMs);
}

/** Takes the place of the job's former request, at the end of the line. */
export function putRequest(draft: Draft, request: PendingRequest): void {
  const book = settledBook(draft);
  countDemand(draft, wantedBy(request) - wantedBy(draft.requests.get(request.jobId)));
  const former = takeRequest(draft, request.jobId);
  draft.requests.set(request.jobId, request);
  noteRequest(book, former, request);
  draft.watcher.request?.(former, request);
  noteChange(draft);
}

export function dropRequest(draft: Draft, job: JobId): void {
  if (!draft.requests.has(job)) return;
  const book = settledBook(draft);
  countDemand(draft, -wantedBy(draft.requests.get(job)));
  const former = takeRequest(draft, job);
  noteRequest(book, former, undefined);
  draft.watcher.request?.(former, undefined);
  noteChange(draft);
}

function takeRequest(draft: Draft, job: JobId): PendingRequest | undefined {
  const former = draft.requests.get(job);
  draft.requests.delete(job);
  draft.reasons.delete(job);
  draft.foreseen = withoutJob(draft.foreseen, job);
  return former;
}

export function leasesOf(draft: Draft, job: JobId): readonly Lease[] {
  if (draft.leaseIdsByJob === undefined) {
    draft.leaseIdsByJob = new Map();
    for (const lease of draft.leases.values()) addToIndex(draft.leaseIdsByJob, lease);
  }
  return [...(draft.leaseIdsByJob.get(job) ?? [])].flatMap((id) => draft.leases.get(id) ?? []);
}

/** Leases whose jobs are to give them up, in order of their tokens. */
export function evictingIn(draft: Draft): readonly Lease[] {
  draft.evictingIds ??= new Set(
    [...draft.leases.values()].flatMap(({ id, eviction }) => (eviction === undefined ? [] : [id])),
  );
  return [...draft.evictingIds]
    .flatMap((id) => draft.leases.get(id) ?? [])
    .sort((a, b) => a.token - b.token);
}

/** Leases on loan, in order of their tokens. */
export function lentIn(draft: Draft): readonly Lease[] {
  draft.lentIds ??= new Set(
    [...draft.leases.values()].flatMap(({ id, loan }) => (loan === undefined ? [] : [id])),
  );
  return [...draft.lentIds]
    .flatMap((id) => draft.leases.get(id) ?? [])
    .sort((a, b) => a.token - b.token);
}

export function putLease(draft: Draft, lease: Lease): void {
  setLease(draft, lease.id, lease);
  draft.isChanged = true;
}

/** The one place in which leases change. */
function setLease(draft: Draft, id: LeaseId, lease: Lease | undefined): void {
  const { leases, usage, leaseIdsByJob, evictingIds, lentIds } = draft;
  const book = settledBook(draft);
  const former = leases.get(id);
  countDemand(draft, latencyGpus(lease) - latencyGpus(former));
  noteLease(book, former, lease);
  if (usage !== undefined) {
    if (former !== undefined) release(usage, indexOf(draft), heldBy(former));
    if (lease !== undefined) take(usage, indexOf(draft), heldBy(lease));
  }
  if (lease === undefined) leases.delete(id);
  else leases.set(id, lease);
  if (leaseIdsByJob !== undefined) {
    if (lease !== undefined) addToIndex(leaseIdsByJob, lease);
    else if (former !== undefined) leaseIdsByJob.get(former.jobId)?.delete(id);
  }
  if (lease?.eviction === undefined) evictingIds?.delete(id);
  else evictingIds?.add(id);
  if (lease?.loan === undefined) lentIds?.delete(id);
  else lentIds?.add(id);
  draft.watcher.lease?.(former, lease);
}

/** Takes the place of the job's former reservation, as the newest; undefined ends it. */
export function setReservation(draft: Draft, job: JobId, after: Reservation | undefined): void {
  const former = draft.reservations.get(job);
  if (former === undefined && after === undefined) return;
  draft.reservations.delete(job);
  if (after !== undefined) draft.reservations.set(job, after);
  if (draft.reserved !== undefined) {
    if (former !== undefined) dropReserved(draft.reserved, former);
    if (after !== undefined) addReserved(draft.reserved, after);
  }
  draft.watcher.reservation?.(former, after);
  noteChange(draft);
}

/**
 * The lease's job is gone. Its GPUs stay taken on the hosts that are named here, less those that have confirmed already;
 * without any the lease is released. What a vacating lease waits for only ever gets less, so the order of facts is all one.
 */
export function vacate(draft: Draft, lease: Lease, unconfirmed: readonly HostId[] | "all"): void {
  const { vacatedHosts = [], vacatingHosts, isDoubted: _settled, ...rest } = lease;
  const open =
    vacatingHosts ??
    lease.gpus.map(({ host }) => host).filter((host) => !vacatedHosts.includes(host));
  const left = unconfirmed === "all" ? open : open.filter((host) => unconfirmed.includes(host));
  if (lease.state === "vacating" && left.length === open.length) return;
  draft.outbox.delete(lease.id);
  if (left.length > 0) putLease(draft, { ...rest, state: "vacating", vacatingHosts: left });
  else setLease(draft, lease.id, undefined);
  if (lease.state !== "vacating") {
    awaitReturn(draft, lease);
    draft.runs = notesAfter(draft.runs, lease, { unconfirmed, nowMs: draft.nowMs });
  }
  noteChange(draft);
}

/** Who stopped to go on with other GPUs has from here on a while to ask for them. */
function awaitReturn(draft: Draft, { jobId, eviction }: Lease): void {
  const kept = draft.reservations.get(jobId);
  if (eviction === undefined || kept?.kind !== "keep") return;
  setReservation(draft, jobId, { ...kept, sinceMs: draft.nowMs });
}

/** These hosts have confirmed that nothing runs under the lease; remembered when its end is still to come. */
export function confirmVacated(draft: Draft, lease: Lease, hosts: readonly HostId[]): void {
  const { vacatingHosts, vacatedHosts = [] } = lease;
  if (vacatingHosts !== undefined) {
    vacate(
      draft,
      lease,
      vacatingHosts.filter((host) => !hosts.includes(host)),
    );
    return;
  }
  const news = lease.gpus
    .map(({ host }) => host)
    .filter((host) => hosts.includes(host) && !vacatedHosts.includes(host));
  if (news.length > 0) putLease(draft, { ...lease, vacatedHosts: [...vacatedHosts, ...news] });
}

export function refuse(
  draft: Draft,
  code: RefusalCode,
  message: string,
  request?: RequestKey,
): void {
  draft.refusals.push({ code, message, ...(request !== undefined && { request }) });
}

/** Refuses an inbox entry, and keeps its beginning for whoever looks into it. */
export function bury(
  draft: Draft,
  {
    code,
    message,
    json,
    nowMs,
  }: { code: RefusalCode; message: string; json: string; nowMs: number },
): void {
  refuse(draft, code, message);
  const entry = json.slice(0, DEAD_LETTER_CHARACTERS);
  draft.deadLetters.push({ atMs: nowMs, code, message, entry });
  draft.isChanged = true;
}

function addToIndex(index: Map<JobId, Set<LeaseId>>, { jobId, id }: Lease): void {
  const ids = index.get(jobId);
  if (ids === undefined) index.set(jobId, new Set([id]));
  else ids.add(id);
}
