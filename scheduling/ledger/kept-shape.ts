/**
 * @file One way to build the requests and leases that a ledger keeps, whether they come from a signal, a plan or a packed row.
 *
 * An engine of JavaScript compiles a loop for the objects that it has seen: for the order of their fields, and for the literal they began with.
 * Requests as they were sent, as they were unpacked and as they were changed were of different kinds to it, so each loop over all
 * requests or leases was compiled again and again, in the first cycles of a run and after each end of one. Here the same fields are
 * always written in the same order. Nothing else changes: neither values nor which fields are absent. Cost: O(fields).
 */

import type { Gang } from "../../domain/job/job.ts";
import type { Lease, LeaseTerms } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { HostStatus } from "./ledger.ts";

export type Writable<T> = { -readonly [Field in keyof T]: T[Field] };

/** Its optional fields may be there without a value. */
export type Fields<T> = {
  readonly [Field in keyof T]: Partial<Pick<T, Field>> extends Pick<T, Field>
    ? T[Field] | undefined
    : T[Field];
};

/** In the order of `unpackRequest` (codec-compact-rows.ts), which reads thousands and builds each but once. */
export function keptRequest(from: PendingRequest): PendingRequest {
  const request: Writable<PendingRequest> = {
    jobId: from.jobId,
    runId: from.runId,
    seq: from.seq,
    name: from.name,
    tenant: from.tenant,
    class: from.class,
    priority: from.priority,
    gang: keptGang(from.gang),
    constraints: from.constraints,
    submittedAtMs: from.submittedAtMs,
    requestedAtMs: from.requestedAtMs,
    arrival: from.arrival,
  };
  if (from.timeLimitMs !== undefined) request.timeLimitMs = from.timeLimitMs;
  if (from.preemption !== undefined) request.preemption = from.preemption;
  if (from.checkpoint !== undefined) request.checkpoint = from.checkpoint;
  if (from.avoidHosts !== undefined) request.avoidHosts = from.avoidHosts;
  if (from.slots !== undefined) request.slots = from.slots;
  if (from.patienceMs !== undefined) request.patienceMs = from.patienceMs;
  if (from.round !== undefined) request.round = from.round;
  if (from.enteredAtMs !== undefined) request.enteredAtMs = from.enteredAtMs;
  if (from.credit !== undefined) request.credit = from.credit;
  return request;
}

export function keptGang(from: Gang, timeoutMs = from.timeoutMs): Gang {
  const gang: Writable<Gang> = { gpus: from.gpus, min: from.min, timeoutMs };
  if (from.shapes !== undefined) gang.shapes = from.shapes;
  if (from.mayGrow !== undefined) gang.mayGrow = from.mayGrow;
  return gang;
}

/** What decisions about the running job need of its request. */
export function keptTerms(
  from: Omit<LeaseTerms, "submittedAtMs">,
  submittedAtMs: number,
): LeaseTerms {
  const terms: Writable<LeaseTerms> = {
    priority: from.priority,
    submittedAtMs,
    gang: keptGang(from.gang),
    constraints: from.constraints,
  };
  if (from.timeLimitMs !== undefined) terms.timeLimitMs = from.timeLimitMs;
  if (from.preemption !== undefined) terms.preemption = from.preemption;
  if (from.checkpoint !== undefined) terms.checkpoint = from.checkpoint;
  return terms;
}

export function keptLease(from: Fields<Lease>): Lease {
  const lease: Writable<Lease> = {
    id: from.id,
    token: from.token,
    jobId: from.jobId,
    runId: from.runId,
    seq: from.seq,
    class: from.class,
    tenant: from.tenant,
    gpus: from.gpus,
    grantedAtMs: from.grantedAtMs,
    requestedAtMs: from.requestedAtMs,
    state: from.state,
  };
  if (from.terms !== undefined) lease.terms = from.terms;
  if (from.slots !== undefined) lease.slots = from.slots;
  if (from.resources !== undefined) lease.resources = from.resources;
  if (from.vacatingHosts !== undefined) lease.vacatingHosts = from.vacatingHosts;
  if (from.vacatedHosts !== undefined) lease.vacatedHosts = from.vacatedHosts;
  if (from.isUnconfirmed !== undefined) lease.isUnconfirmed = from.isUnconfirmed;
  if (from.eviction !== undefined) lease.eviction = from.eviction;
  if (from.checkpointedAtMs !== undefined) lease.checkpointedAtMs = from.checkpointedAtMs;
  if (from.causedLossGpuSeconds !== undefined)
    lease.causedLossGpuSeconds = from.causedLossGpuSeconds;
  if (from.headroomGpus !== undefined) lease.headroomGpus = from.headroomGpus;
  if (from.opportunistic !== undefined) lease.opportunistic = from.opportunistic;
  return lease;
}

export function keptStatus(from: HostStatus): HostStatus {
  const status: Writable<HostStatus> = { isDrained: from.isDrained };
  if (from.agent !== undefined) status.agent = from.agent;
  if (from.drainReason !== undefined) status.drainReason = from.drainReason;
  if (from.gpuDrains !== undefined) status.gpuDrains = from.gpuDrains;
  if (from.fenceMs !== undefined) status.fenceMs = from.fenceMs;
  if (from.silentSinceMs !== undefined) status.silentSinceMs = from.silentSinceMs;
  if (from.isFenced !== undefined) status.isFenced = from.isFenced;
  if (from.fencedAtMs !== undefined) status.fencedAtMs = from.fencedAtMs;
  if (from.lastEpoch !== undefined) status.lastEpoch = from.lastEpoch;
  if (from.toldAtMs !== undefined) status.toldAtMs = from.toldAtMs;
  return status;
}
