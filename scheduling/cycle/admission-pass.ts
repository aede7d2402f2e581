/**
 * @file One pass through the queue: each request is nominated, and then admitted, or it preempts, or it reserves, and learns why it waits.
 *
 * What one request cannot get, no equivalent one can get in the same pass (equivalence-memo.ts). Whole kinds of requests may be passed over
 * (dismissal.ts), and so are those that would change nothing (settled-requests.ts); the pass stops when nothing is left that any request could use (early-stop.ts).
 * Cost: O(log n) for the queue of n and O(clusters) a nomination, O(hosts) and the placement policy's own a grant.
 */

import { gpuCountOf, type Reservation } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { isServedInTurn, quotaDemand, wakeAtOf, type WaitCode } from "../admission/feasibility.ts";
import { asOneGang } from "../admission/fill-arrays.ts";
import { claimQuota, dropClaims } from "../admission/quota-claims.ts";
import { classFlow, tenantFlow } from "../ledger/rules/flow.ts";
import type { OrderFacts } from "../queue/queue-policy.ts";
import {
  endReservation,
  hasRoom,
  mayReserve,
  reservationOf,
  visit,
  type ReservationSet,
} from "../reservation/reservation-set.ts";
import { reserve } from "../reservation/reserve.ts";
import { admit } from "./admit.ts";
import { RETRY_MS, type CycleInput } from "./cycle-input.ts";
import { openDismissingCursor } from "./dismissal.ts";
import { openEarlyStop } from "./early-stop.ts";
import { openEquivalenceMemo } from "./equivalence-memo.ts";
import { enterEvictions, preempt } from "./evictions.ts";
import { nominate, nominateBlocked, opportunisticReservations } from "./nominate.ts";
import { isAtLimit, type CycleParts } from "./parts.ts";
import type { PlanDraft } from "./plan-draft.ts";
import { isDismissing } from "./policies.ts";
import { openSettledRequests } from "./settled-requests.ts";
import { startJustReserved } from "./reserved-starts.ts";

/** What a pass found out about the job that it was asked about. */
export interface PassAnswer {
  /** Requests of the queue up to the job, it included. */
  readonly position?: number;
  /** Why the job waits; absent when it starts, or was not reached. */
  readonly reason?: PendingReason;
}

/** `pass`: 1 for the first of the cycle. */
export function runAdmissionPass(input: CycleInput, parts: CycleParts, pass: number): PassAnswer {
  const { cache, snapshot, view, nowMs, options } = input;
  const { plan, work, reservations, reports, preemption } = parts;
  const { onlyFor, policies } = options;
  const mayEndEarly =
    onlyFor !== undefined || policies.backfill === "none" || isDismissing(options);
  const unvisited = unvisitedReservations(parts, snapshot.requests);
  const memo = openEquivalenceMemo(view, reservations, (gang) =>
    opportunisticReservations(input, reservations, gang),
  );
  const order = cache.queue.order(nowMs, queueFacts(input, plan));
  const cursor = openDismissingCursor(order, input, { parts, memo, unvisited });
  const stop = openEarlyStop(input, parts, { pass, unvisited });
  const settled = openSettledRequests(input, parts, { pass, cursor, stop });
  let visits = 0;
  for (let request = settled.next(); request !== undefined; request = settled.next()) {
    visits += 1;
    const position = visits + settled.passed();
    const { jobId } = request;
    if (plan.grantedJobs.has(jobId)) continue;
    if (isAtLimit(parts)) {
      plan.wakeAt(nowMs + RETRY_MS);
      if (onlyFor === undefined) return {};
      if (jobId === onlyFor) return { position };
      continue;
    }
    const step = stop.next(jobId, position);
    if (step === "skip") continue;
    if (step === "report-and-stop") reports.reportUntold();
    if (step !== "nominate") return {};

    const gang = asOneGang(request, view);
    dropClaims(view.claims, gang);
    visit(reservations, jobId);
    unvisited.delete(jobId);
    const own = reservationOf(reservations, jobId);
    const isNew = own === undefined && !stop.isBlocked();
    const known = isNew ? memo.known(gang) : undefined;
    if (known !== undefined && isSettled(gang, known)) {
      work.spend(1);
      plan.wakeAt(wakeAtOf(gang, known, nowMs));
      settled.note(request);
      continue;
    }
    const found =
      known !== undefined
        ? ({ kind: "wait", code: known, work: 1 } as const)
        : (stop.isBlocked() ? nominateBlocked : nominate)(input, reservations, { gang, own });
    work.spend(found.work);

    if (found.kind === "grant") {
      admit(parts, request, found.item);
      cursor.noteGrant(request, gpuCountOf(found.item.gpus));
      if (jobId === onlyFor) return { position };
      continue;
    }
    const evictions = preempt(input, parts, { gang, code: found.code, own });
    if (evictions !== undefined) enterEvictions(parts, evictions, input);
    const code = evictions === undefined ? codeBeside(own, found.code) : "WaitingForPreempted";
    const aside = evictions === undefined ? own : undefined;
    plan.wakeAt(wakeAtOf(gang, code, nowMs));
    if (jobId === onlyFor) return { position, reason: reports.describe(gang, code, aside) };
    if (own === undefined && known === undefined) memo.note(gang, found.code);
    reports.report(gang, code, aside);
    if (evictions === undefined) {
      reserveOrClaim(input, reservations, { gang, code, own });
      if (startJustReserved(input, parts, request)) {
        plan.withdrawReport(jobId);
        continue;
      }
    }
    if (stop.blocks(jobId, code)) return {};
    cursor.noteFailure(gang);
  }
  return onlyFor === undefined ? {} : { position: visits };

  /** Whether a request that waits by a known code can change nothing any more: not the plan, nor reservations, nor claims. */
  function isSettled(gang: PendingRequest, code: WaitCode): boolean {
    if (mayEndEarly || !reports.addsNothing(gang.jobId, code)) return false;
    if (isServedInTurn(code)) return !hasRoom(reservations) && !preemption.hasSearches();
    if (code !== "WaitingForQuota") return true;
    return view.claims.has(gang.tenant) && !preemption.hasSearches();
  }
}

/** A gang that keeps GPUs since it has lost a host waits for others beside them. */
const codeBeside = (own: Reservation | undefined, code: WaitCode): WaitCode =>
  own?.kind === "replace" && (isServedInTurn(code) || code === "WaitingForHosts")
    ? "WaitingForReplacement"
    : code;

/** Reserves GPUs for a request that waits for leases to end, and claims quota of its tenant for it. */
function reserveOrClaim(
  { view, placeLater }: CycleInput,
  reservations: ReservationSet,
  {
    gang,
    code,
    own,
  }: {
    readonly gang: PendingRequest;
    readonly code: WaitCode;
    readonly own: Reservation | undefined;
  },
): void {
  const { claims } = view;
  if (code === "WaitingForQuota" && !claims.has(gang.tenant))
    claimQuota(claims, gang, quotaDemand(gang, view));
  const isWaiting = isServedInTurn(code) || (own !== undefined && own.kind !== "backfill");
  if (!isWaiting) {
    endReservation(reservations, gang.jobId);
    return;
  }
  const mayBeFirst =
    hasRoom(reservations) && mayReserve(reservations.rule, gang, reservations.nowMs);
  if (own === undefined && !mayBeFirst) return;
  if (reserve(reservations, gang, { view, place: placeLater }))
    claimQuota(claims, gang, quotaDemand(gang, view));
}

/** Jobs with backfill reservations that wait: the pass comes to each of them before it ends. */
const unvisitedReservations = (
  { reservations, plan }: Pick<CycleParts, "reservations" | "plan">,
  requests: ReadonlyMap<JobId, PendingRequest>,
): Set<JobId> =>
  new Set(
    [...reservations.backfill.keys()].filter(
      (job) => requests.has(job) && !plan.grantedJobs.has(job),
    ),
  );

/** GPUs in use by flow, with what this cycle has granted so far. */
function queueFacts({ cache, snapshot }: CycleInput, { items }: PlanDraft): OrderFacts {
  const runningGpus = new Map(cache.runningGpus);
  for (const item of items) {
    const request = snapshot.requests.get(item.request.jobId);
    if (request === undefined) continue;
    for (const flow of [classFlow(request), tenantFlow(request)])
      runningGpus.set(flow, (runningGpus.get(flow) ?? 0) + gpuCountOf(item.gpus));
  }
  return {
    ...(snapshot.service !== undefined && { service: snapshot.service }),
    ...(snapshot.runs !== undefined && { runs: snapshot.runs }),
    runningGpus,
  };
}
