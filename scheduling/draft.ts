/**
 * @file A ledger while one event changes it: every map is copied once, and what changed is noted.
 *
 * An event that changes nothing gives the very same ledger back. Cost: O(ledger) to open, O(1) a change; the leases of a
 * job are found through an index that is built when it is first asked for.
 */

import type { RefusalCode } from "../domain/codes.ts";
import type { HostId, JobId, LeaseId } from "../domain/ids.ts";
import type { Lease, LeaseFact, RequestKey } from "../domain/lease.ts";
import type { PendingReason } from "../domain/pending.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { indexFleet, type FleetIndex } from "./fleet-index.ts";
import type { Applied, DeadLetter, HostStanding, Ledger, OutboxGrant, Refusal } from "./ledger.ts";

export interface Draft {
  readonly before: Ledger;
  shape: Ledger["shape"];
  detailsHash: string | undefined;
  nextToken: number;
  nextArrival: number;
  readonly requests: Map<JobId, PendingRequest>;
  readonly reasons: Map<JobId, PendingReason>;
  readonly leases: Map<LeaseId, Lease>;
  readonly hosts: Map<HostId, HostStanding>;
  readonly outbox: Map<LeaseId, OutboxGrant>;
  readonly deadLetters: DeadLetter[];
  readonly refusals: Refusal[];
  readonly granted: LeaseId[];
  readonly disowned: LeaseFact[];
  isChanged: boolean;
  needsDecision: boolean;
  index?: FleetIndex;
  leaseIdsByJob?: Map<JobId, Set<LeaseId>>;
}

/** Dead letters that are kept. */
const MAX_DEAD_LETTERS = 50;
const DEAD_LETTER_CHARACTERS = 500;

export function openDraft(before: Ledger): Draft {
  return {
    before,
    shape: before.shape,
    detailsHash: before.detailsHash,
    nextToken: before.nextToken,
    nextArrival: before.nextArrival,
    requests: new Map(before.requests),
    reasons: new Map(before.reasons),
    leases: new Map(before.leases),
    hosts: new Map(before.hosts),
    outbox: new Map(before.outbox),
    deadLetters: [...before.deadLetters],
    refusals: [],
    granted: [],
    disowned: [],
    isChanged: false,
    needsDecision: false,
  };
}

export function closeDraft(draft: Draft): Applied {
  const { before, detailsHash, ...outcome } = draft;
  const { refusals, granted, disowned, needsDecision } = outcome;
  if (!draft.isChanged) return { ledger: before, refusals, granted, disowned, needsDecision };
  const { shape, nextToken, nextArrival, requests, reasons, leases, hosts, outbox } = draft;
  const ledger = {
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
  };
  return { ledger, refusals, granted, disowned, needsDecision };
}

/** Something that `decide` may answer differently to. */
export function noteChange(draft: Draft): void {
  draft.isChanged = true;
  draft.needsDecision = true;
}

export const indexOf = (draft: Draft): FleetIndex => (draft.index ??= indexFleet(draft.shape));

/** Takes the place of the job's former request, at the end of the line. */
export function putRequest(draft: Draft, request: PendingRequest): void {
  dropRequest(draft, request.jobId);
  draft.requests.set(request.jobId, request);
  noteChange(draft);
}

export function dropRequest(draft: Draft, job: JobId): void {
  if (!draft.requests.delete(job)) return;
  draft.reasons.delete(job);
  noteChange(draft);
}

export function leasesOf(draft: Draft, job: JobId): readonly Lease[] {
  if (draft.leaseIdsByJob === undefined) {
    draft.leaseIdsByJob = new Map();
    for (const lease of draft.leases.values()) addToIndex(draft.leaseIdsByJob, lease);
  }
  return [...(draft.leaseIdsByJob.get(job) ?? [])].flatMap((id) => draft.leases.get(id) ?? []);
}

export function putLease(draft: Draft, lease: Lease): void {
  draft.leases.set(lease.id, lease);
  if (draft.leaseIdsByJob !== undefined) addToIndex(draft.leaseIdsByJob, lease);
  draft.isChanged = true;
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
  else {
    draft.leases.delete(lease.id);
    draft.leaseIdsByJob?.get(lease.jobId)?.delete(lease.id);
  }
  noteChange(draft);
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
