/**
 * @file Applies events to the ledger, or refuses them: the only code that changes the ledger.
 *
 * Every invariant is checked before anything changes. Nothing here throws: an inbox entry that cannot be parsed goes to the dead letters,
 * and a stale or wrong plan item is refused whole with a code while the other items apply. Every plan is a little stale, so its
 * preconditions are checked again here with the functions that `decide` used (grant-check.ts).
 * Cost: a copy of each map that an event changes, then O(hosts concerned) an entry or item; O(ledger) the first event on a ledger.
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { byCodeUnit, leaseId, token } from "../../../domain/values/ids.ts";
import { MAX_HOLDERS, type PendingReason } from "../../../domain/lease/pending.ts";
import {
  MAX_PLAN_ITEMS,
  type PendingRequest,
  type Plan,
  type PlanItem,
} from "../../../domain/lease/plan.ts";
import { queueName } from "../../../domain/lease/queue-part.ts";
import type { RequestKey } from "../../../domain/lease/lease.ts";
import { drainGpus, drainHosts, knownHosts, undrainGpus, undrainHosts } from "./apply-drains.ts";
import { applyAudited, applyDelivered, applyEntry } from "./apply-inbox.ts";
import {
  applyEvict,
  applyEvictionsSent,
  endReservations,
  revokeOverdue,
} from "./apply-evictions.ts";
import { describedAnew, lookForRoom } from "./apply-intake.ts";
import { applyQueueHeld, applyQueueReleased } from "./apply-queue-holds.ts";
import { applyReserve, NO_ROOM } from "./apply-reservations.ts";
import { keepAccounts, takeAccounts } from "./kept-accounts.ts";
import {
  beginTransaction,
  buryJunk,
  closeTransaction,
  refuse,
  type LedgerTransaction,
} from "./transaction.ts";
import { setShape } from "./transaction-fleet.ts";
import { indexOf, reservedIn, usageIn } from "./transaction-index.ts";
import { putLease, setReservation } from "./transaction-leases.ts";
import { applyLobbiesTold, shareOutPlaces } from "./transaction-intake.ts";
import {
  isRoomForShape,
  isRoomForWord,
  openSizeIn,
  putGrant,
  putReason,
  settleSize,
} from "./transaction-size.ts";
import { dropRequest, putRequest } from "./transaction-requests.ts";
import { startHold } from "../rules/queue-holds.ts";
import { opportunisticGpus } from "../rules/reservation-index.ts";
import { applyStartEstimates } from "./apply-start-estimates.ts";
import { withStart } from "../rules/start-estimates.ts";
import { fenceHost, fenceSilent, restartClocks } from "./host-silence.ts";
import { applyRepair } from "./apply-repair.ts";
import { endRecovery } from "./ledger-recovery.ts";
import { keptTerms } from "../kept-shape.ts";
import { checkGrant, type GrantProblem, type GrantTerms } from "../rules/grant-check.ts";
import { NEWEST_RULES, type Applied, type Ledger, type LedgerEvent } from "../ledger.ts";

export { checkLedger } from "../rules/invariants.ts";
export { nextEstimateAtMs } from "./estimate-clock.ts";
export { nextLookAtMs } from "./apply-intake.ts";
export { nextReturnAtMs, revokeAfterMs } from "./apply-evictions.ts";
export { isMassSilence, nextFenceAtMs } from "./host-silence.ts";

export function emptyLedger(shape: FleetShape, detailsHash?: string): Ledger {
  return {
    applyVersion: NEWEST_RULES,
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
  const transaction = beginTransaction(ledger);
  takeAccounts(transaction);
  applyTo(transaction, event);
  const applied = closeTransaction(transaction);
  keepAccounts(transaction, applied.ledger);
  return applied;
}

const NO_ROOM_FOR_SHAPE = `the fleet's new description is refused: ${NO_ROOM}`;

/** Why the fleet cannot have this description now; undefined where it can. Cost: O(ledger). */
export function shapeRefusal(ledger: Ledger, shape: FleetShape): string | undefined {
  const transaction = beginTransaction(ledger);
  openSizeIn(transaction);
  return isRoomForShape(transaction, shape) ? undefined : NO_ROOM_FOR_SHAPE;
}

/** Applies an event to a draft that may stay open for the next one. */
export function applyTo(transaction: LedgerTransaction, event: LedgerEvent): void {
  const { nowMs } = event;
  transaction.nowMs = nowMs;
  openSizeIn(transaction);
  switch (event.kind) {
    case "inbox":
      for (const note of event.junk ?? []) buryJunk(transaction, note);
      for (const entry of event.entries) applyEntry(transaction, entry, nowMs);
      break;
    case "plan":
      applyPlan(transaction, event.plan, nowMs);
      break;
    case "delivered":
      applyDelivered(transaction, event);
      break;
    case "evictions-sent":
      applyEvictionsSent(transaction, event);
      break;
    case "drain":
      drainHosts(transaction, event.hosts, event.reason);
      break;
    case "undrain":
      undrainHosts(transaction, event.hosts);
      break;
    case "drain-gpus":
      drainGpus(transaction, event.gpus, event.reason);
      break;
    case "undrain-gpus":
      undrainGpus(transaction, event.gpus);
      break;
    case "queue-held":
      applyQueueHeld(transaction, event.hold);
      break;
    case "queue-released":
      applyQueueReleased(transaction, event.queue);
      break;
    case "fence":
      for (const host of knownHosts(transaction, event.hosts)) fenceHost(transaction, host, nowMs);
      break;
    case "clock":
      fenceSilent(transaction, nowMs);
      revokeOverdue(transaction);
      lookForRoom(transaction);
      break;
    case "recovery-asked":
      endRecovery(transaction, event.untilMs);
      break;
    case "repaired":
      applyRepair(transaction, event);
      break;
    case "audited":
      applyAudited(transaction, event.closed);
      break;
    case "estimated":
      applyStartEstimates(transaction, event);
      break;
    case "lobbies-told":
      applyLobbiesTold(transaction, event);
      break;
    case "fleet-changed":
      // Leases and agents are facts, whatever the description says: they stay, and over-use shows until it is gone.
      if (isRoomForShape(transaction, event.shape)) {
        setShape(transaction, event.shape, event.detailsHash);
        describedAnew(transaction);
      } else refuse(transaction, "LedgerFull", NO_ROOM_FOR_SHAPE);
      break;
  }
  const haveHostsChanged =
    transaction.wasMassSilent !== undefined || event.kind === "fleet-changed";
  restartClocks(transaction, nowMs);
  endReservations(transaction, haveHostsChanged);
  shareOutPlaces(transaction);
  settleSize(transaction);
}

function applyPlan(transaction: LedgerTransaction, plan: Plan, nowMs: number): void {
  const wantsDecision = transaction.needsDecision;
  applyReserve(transaction, plan.reserve ?? []);
  const terms: GrantTerms = {
    index: indexOf(transaction),
    usage: usageIn(transaction),
    hostStatuses: transaction.hosts,
    reserved: reservedIn(transaction),
    nowMs,
  };
  plan.items.forEach((item, at) => {
    const request = transaction.requests.get(item.request.jobId);
    const problem = at < MAX_PLAN_ITEMS ? keyProblem(item.request, request) : TOO_MANY;
    const found =
      problem ??
      (request && (heldProblem(transaction, request) ?? checkGrant(request, item, terms))) ??
      (isRoomForWord(transaction, [item, request?.jobId]) ? undefined : FULL);
    if (found !== undefined || request === undefined) {
      const { code, message } = found ?? GONE;
      const text = `grant to ${item.request.jobId} is refused: ${message}`;
      transaction.refusals.push({ code, message: text, request: item.request });
      return;
    }
    grant(transaction, request, item);
  });
  applyEvict(transaction, plan.evict ?? []);
  for (const { request: key, reason } of plan.pending) {
    const request = transaction.requests.get(key.jobId);
    if (keyProblem(key, request) !== undefined || !isSound(reason)) continue;
    putReason(transaction, key.jobId, reason);
    transaction.isChanged = true;
  }
  // What a full plan left out may start at once; anything else that was refused was overtaken by an event that says so itself.
  transaction.needsDecision =
    wantsDecision || (plan.items.length >= MAX_PLAN_ITEMS && transaction.requests.size > 0);
}

/** A reason without an event that would change it would let its job wait for ever. */
const isSound = ({ wakeOn, holders }: PendingReason): boolean =>
  wakeOn.length > 0 && holders.length <= MAX_HOLDERS;

const FULL: GrantProblem = { code: "LedgerFull", message: NO_ROOM };
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

function heldProblem(
  transaction: LedgerTransaction,
  request: PendingRequest,
): GrantProblem | undefined {
  const hold = startHold(transaction, request);
  return hold && { code: "QueueHeld", message: `${queueName(hold.queue)} is held` };
}

function grant(transaction: LedgerTransaction, request: PendingRequest, item: PlanItem): void {
  const { nowMs } = transaction;
  const { jobId, runId, seq, tenant, requestedAtMs } = request;
  const next = token(transaction.nextToken);
  const id = leaseId(next);
  transaction.nextToken += 1;
  const { lostGpuSeconds } = transaction.reservations.get(jobId) ?? {};
  const opportunistic =
    item.isOpportunistic === true
      ? opportunisticGpus(reservedIn(transaction), request, { gpus: item.gpus, nowMs })
      : [];
  setReservation(transaction, jobId, undefined);
  transaction.ownEstimates = withStart(transaction.ownEstimates, jobId, nowMs);
  const slotsLeft = (request.slots ?? 0) - (item.slots ?? 0);
  if (slotsLeft > 0) rejoin(transaction, { ...request, slots: slotsLeft }, nowMs);
  else dropRequest(transaction, jobId);
  putLease(transaction, {
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
    terms: keptTerms(request, request.submittedAtMs),
    ...(lostGpuSeconds !== undefined &&
      lostGpuSeconds > 0 && { causedLossGpuSeconds: lostGpuSeconds }),
    ...(opportunistic.length > 0 && { opportunistic: { gpus: opportunistic } }),
  });
  putGrant(
    transaction,
    { id, token: next },
    {
      ...(item.predictedGBs !== undefined && { predictedGBs: item.predictedGBs }),
      ...(item.bandwidth !== undefined && { bandwidth: item.bandwidth }),
      reason: item.reason,
    },
  );
  transaction.granted.push(id);
}

/**
 * What an array still wants stands in line like a job submitted now: it has had its turn. Otherwise an array of thousands would
 * have every turn until it is done.
 */
function rejoin(transaction: LedgerTransaction, request: PendingRequest, nowMs: number): void {
  const reason = transaction.reasons.get(request.jobId);
  putRequest(transaction, {
    ...request,
    submittedAtMs: Math.max(request.submittedAtMs, nowMs),
    arrival: transaction.nextArrival,
  });
  putReason(transaction, request.jobId, reason);
  transaction.nextArrival += 1;
}
