/**
 * @file The constitution: how the ledger changes, event by event, or why it does not.
 *
 * Every invariant is checked before anything changes. Nothing here throws: an inbox entry that cannot be understood goes to the
 * dead letters, a plan item that is stale or wrong is refused with a code, whole, and the rest goes on. Plans are always a
 * little stale: what was true when they were decided is checked again here, by the same functions (feasibility.ts).
 * Runs inside the fleet workflow, so any change of behaviour here, or in what is imported here, needs a higher `APPLY_VERSION`.
 * Cost: O(ledger) an event for the copy and the account of what is taken, then O(hosts concerned) an entry or item.
 */

import type { FleetShape } from "../domain/fleet.ts";
import { byCodeUnit, leaseId, token, type HostId } from "../domain/ids.ts";
import { MAX_HOLDERS, type PendingReason } from "../domain/pending.ts";
import { MAX_PLAN_ITEMS, type PendingRequest, type Plan, type PlanItem } from "../domain/plan.ts";
import type { LeaseTerms, RequestKey } from "../domain/lease.ts";
import { applyAudited, applyDelivered, applyEntry, putStanding } from "./apply-entry.ts";
import { applyEvict, applyEvictionsSent, endReservations, revokeOverdue } from "./apply-preempt.ts";
import { applyReserve } from "./apply-reserve.ts";
import {
  closeDraft,
  dropRequest,
  indexOf,
  openDraft,
  putLease,
  putRequest,
  refuse,
  reservedIn,
  setReservation,
  setShape,
  usageIn,
  type Draft,
} from "./draft.ts";
import { gpusOnLoan } from "./reserved.ts";
import { applyForeseen } from "./apply-foreseen.ts";
import { withStart } from "./foreseen.ts";
import { fenceHost, fenceSilent, restartClocks } from "./silence.ts";
import { checkGrant, type GrantProblem, type GrantTerms } from "./feasibility.ts";
import { APPLY_VERSION, type Applied, type Ledger, type LedgerEvent } from "./ledger.ts";

export { checkLedger } from "./invariants.ts";
export { nextForesightAtMs } from "./foresight-clock.ts";
export { nextReturnAtMs, revokeAfterMs } from "./apply-preempt.ts";
export { isMassSilence, nextFenceAtMs } from "./silence.ts";

export function emptyLedger(shape: FleetShape, detailsHash?: string): Ledger {
  return {
    applyVersion: APPLY_VERSION,
    shape,
    ...(detailsHash !== undefined && { detailsHash }),
    nextToken: 1,
    nextArrival: 1,
    requests: new Map(),
    reasons: new Map(),
    leases: new Map(),
    hosts: new Map(),
    outbox: new Map(),
    deadLetters: [],
  };
}

export function apply(ledger: Ledger, event: LedgerEvent): Applied {
  const draft = openDraft(ledger);
  applyTo(draft, event);
  return closeDraft(draft);
}

/** The same on a draft that may stay open for the next event. */
export function applyTo(draft: Draft, event: LedgerEvent): void {
  const { nowMs } = event;
  draft.nowMs = nowMs;
  switch (event.kind) {
    case "inbox":
      for (const entry of event.entries) applyEntry(draft, entry, nowMs);
      break;
    case "plan":
      applyPlan(draft, event.plan, nowMs);
      break;
    case "delivered":
      applyDelivered(draft, event);
      break;
    case "evictions-sent":
      applyEvictionsSent(draft, event);
      break;
    case "drain":
      for (const host of knownHosts(draft, event.hosts)) drain(draft, host, event.reason);
      break;
    case "undrain":
      for (const host of knownHosts(draft, event.hosts)) undrain(draft, host);
      break;
    case "fence":
      for (const host of knownHosts(draft, event.hosts)) fenceHost(draft, host, nowMs);
      break;
    case "clock":
      fenceSilent(draft, nowMs);
      revokeOverdue(draft);
      break;
    case "audited":
      applyAudited(draft, event.closed);
      break;
    case "foreseen":
      applyForeseen(draft, event);
      break;
    case "fleet-changed":
      // Leases and agents are facts, whatever the description says: they stay, and over-use shows until it is gone.
      setShape(draft, event.shape, event.detailsHash);
      break;
  }
  const haveHostsChanged = draft.wasMassSilent !== undefined || event.kind === "fleet-changed";
  restartClocks(draft, nowMs);
  endReservations(draft, haveHostsChanged);
}

function applyPlan(draft: Draft, plan: Plan, nowMs: number): void {
  const wantsDecision = draft.needsDecision;
  applyReserve(draft, plan.reserve ?? []);
  const terms: GrantTerms = {
    index: indexOf(draft),
    usage: usageIn(draft),
    standings: draft.hosts,
    reserved: reservedIn(draft),
    nowMs,
  };
  plan.items.forEach((item, at) => {
    const request = draft.requests.get(item.request.jobId);
    const problem = at < MAX_PLAN_ITEMS ? keyProblem(item.request, request) : TOO_MANY;
    const found = problem ?? (request && checkGrant(request, item, terms));
    if (found !== undefined || request === undefined) {
      const { code, message } = found ?? GONE;
      refuse(draft, code, `grant to ${item.request.jobId} is refused: ${message}`, item.request);
      return;
    }
    grant(draft, request, item, nowMs);
  });
  applyEvict(draft, plan.evict ?? []);
  for (const { request: key, reason } of plan.pending) {
    const request = draft.requests.get(key.jobId);
    if (keyProblem(key, request) !== undefined || !isSound(reason)) continue;
    draft.reasons.set(key.jobId, reason);
    draft.isChanged = true;
  }
  // What a full plan left out may start at once; anything else that was refused was overtaken by an event that says so itself.
  draft.needsDecision =
    wantsDecision || (plan.items.length >= MAX_PLAN_ITEMS && draft.requests.size > 0);
}

/** A reason without an event that would change it would let its job wait for ever. */
const isSound = ({ wakeOn, holders }: PendingReason): boolean =>
  wakeOn.length > 0 && holders.length <= MAX_HOLDERS;

const GONE: GrantProblem = { code: "RequestGone", message: "its request is not waiting any more" };
const TOO_MANY: GrantProblem = {
  code: "EntryTooLarge",
  message: `a plan has ${MAX_PLAN_ITEMS} items at most; the rest is decided again`,
};

function keyProblem(
  key: RequestKey,
  request: PendingRequest | undefined,
): GrantProblem | undefined {
  if (request === undefined) return GONE;
  if (request.runId === key.runId && request.seq === key.seq) return undefined;
  return {
    code: "RequestSuperseded",
    message: `it was decided for request ${key.seq} of run ${key.runId}; ${request.seq} of ${request.runId} waits now`,
  };
}

function grant(draft: Draft, request: PendingRequest, item: PlanItem, nowMs: number): void {
  const { jobId, runId, seq, tenant, requestedAtMs } = request;
  const next = token(draft.nextToken);
  const id = leaseId(next);
  draft.nextToken += 1;
  const { lostGpuSeconds } = draft.reservations.get(jobId) ?? {};
  const lent =
    item.isLoan === true ? gpusOnLoan(reservedIn(draft), request, { gpus: item.gpus, nowMs }) : [];
  setReservation(draft, jobId, undefined);
  draft.foreseen = withStart(draft.foreseen, jobId, nowMs);
  const slotsLeft = (request.slots ?? 0) - (item.slots ?? 0);
  if (slotsLeft > 0) rejoin(draft, { ...request, slots: slotsLeft }, nowMs);
  else dropRequest(draft, jobId);
  putLease(draft, {
    id,
    token: next,
    jobId,
    runId,
    seq,
    class: request.class,
    tenant,
    ...(item.slots !== undefined && { slots: item.slots }),
    gpus: item.gpus
      .map(({ host, mask }) => ({ host, mask }))
      .sort((a, b) => byCodeUnit(a.host, b.host)),
    grantedAtMs: nowMs,
    requestedAtMs,
    state: "granted",
    terms: termsOf(request),
    ...(lostGpuSeconds !== undefined &&
      lostGpuSeconds > 0 && { causedLossGpuSeconds: lostGpuSeconds }),
    ...(lent.length > 0 && { loan: { gpus: lent } }),
  });
  draft.outbox.set(id, {
    ...(item.predictedGBs !== undefined && { predictedGBs: item.predictedGBs }),
    ...(item.bandwidth !== undefined && { bandwidth: item.bandwidth }),
    reason: item.reason,
  });
  draft.granted.push(id);
}

/**
 * What an array still wants stands in line like a job submitted now: it has had its turn. Otherwise an array of thousands would
 * have every turn until it is done.
 */
function rejoin(draft: Draft, request: PendingRequest, nowMs: number): void {
  const reason = draft.reasons.get(request.jobId);
  putRequest(draft, {
    ...request,
    submittedAtMs: Math.max(request.submittedAtMs, nowMs),
    arrival: draft.nextArrival,
  });
  if (reason !== undefined) draft.reasons.set(request.jobId, reason);
  draft.nextArrival += 1;
}

/** What decisions about the running job need of its request. */
function termsOf(request: PendingRequest): LeaseTerms {
  const { priority, submittedAtMs, gang, constraints, timeLimitMs, preemption, checkpoint } =
    request;
  return {
    priority,
    submittedAtMs,
    gang,
    constraints,
    ...(timeLimitMs !== undefined && { timeLimitMs }),
    ...(preemption !== undefined && { preemption }),
    ...(checkpoint !== undefined && { checkpoint }),
  };
}

/** The named hosts that the fleet has; the others are refused. */
function knownHosts(draft: Draft, hosts: readonly HostId[]): readonly HostId[] {
  const { places } = indexOf(draft);
  return hosts.filter((host) => {
    if (places.has(host)) return true;
    refuse(draft, "HostUnknown", `the fleet has no host ${host}`);
    return false;
  });
}

function drain(draft: Draft, host: HostId, drainReason: string): void {
  const standing = draft.hosts.get(host);
  if (standing?.isDrained === true && standing.drainReason === drainReason) return;
  putStanding(draft, host, { ...standing, isDrained: true, drainReason });
}

function undrain(draft: Draft, host: HostId): void {
  const standing = draft.hosts.get(host);
  if (standing === undefined || !standing.isDrained) return;
  const { drainReason: _over, ...rest } = standing;
  putStanding(draft, host, { ...rest, isDrained: false });
}
