/**
 * @file Tells waiting requests why they wait: the front of the queue with fresh figures, the others a new code, each request at least once.
 *
 * Cost: that of a reason (pending-reason.ts) for each of at most `limits.maxReasons` requests.
 */

import type { Reservation } from "../../domain/lease/lease.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingCode } from "../../domain/values/codes.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { checkFeasibility, isHopeless, wakeAtOf, type WaitCode } from "../admission/feasibility.ts";
import { asOneGang } from "../admission/fill-arrays.ts";
import type { ReasonContext } from "../reasons/blocking-jobs.ts";
import { holdOf } from "../ledger/rules/queue-holds.ts";
import { openHolderIndex } from "../reasons/holder-index.ts";
import { describeWait } from "../reasons/pending-reason.ts";
import type { ReservationSet } from "../reservation/reservation-set.ts";
import { withoutOwn } from "../reservation/trial.ts";
import { RETRY_MS, type CycleInput } from "./cycle-input.ts";
import type { PlanDraft } from "./plan-draft.ts";
import type { WorkBudget } from "./work-budget.ts";

export interface WaitReports {
  /** `own`: the request's reservation; the figures are those of the fleet without it. */
  readonly describe: (gang: PendingRequest, code: WaitCode, own?: Reservation) => PendingReason;
  /** Puts the reason into the plan where it is new to the request, or where the request is at the front of the queue. */
  readonly report: (gang: PendingRequest, code: WaitCode, own?: Reservation) => void;
  /** Whether a report would change nothing: the job was reported to, or knows as much, or the plan holds as many reasons as it may. */
  readonly addsNothing: (job: JobId, code: WaitCode) => boolean;
  /** Reports to requests that were never told anything, whether the cycle came to them or not. */
  readonly reportUntold: () => void;
  /** No request may pass this one any more. */
  readonly noteBlocker: (job: JobId) => void;
}

export function openWaitReports(
  input: CycleInput,
  {
    plan,
    work,
    reservations,
  }: {
    readonly plan: PlanDraft;
    readonly work: WorkBudget;
    readonly reservations: ReservationSet;
  },
): WaitReports {
  const { snapshot, view, nowMs, options, isReporting } = input;
  const { limits, onlyFor } = options;
  const reported = new Set<JobId>();
  let blocker: JobId | undefined;
  /** Reasons were left out, and the next cycle is to report them. */
  let isCut = false;
  const context: ReasonContext = {
    ...view,
    snapshot,
    evictions: plan.evictions,
    holders: openHolderIndex(snapshot.leases, plan.holders, view.capacity.index),
    blocker: () => blocker,
  };
  return {
    describe,
    report,
    addsNothing: (job, code) =>
      isCut || reported.has(job) || (reported.size >= limits.freshReasons && isOld(job, code)),
    reportUntold,
    noteBlocker(job) {
      blocker ??= job;
    },
  };

  function describe(gang: PendingRequest, code: WaitCode, own?: Reservation): PendingReason {
    return own === undefined
      ? describeWait(gang, code, context)
      : withoutOwn(reservations, own.jobId, () => describeWait(gang, code, context));
  }

  function report(gang: PendingRequest, code: WaitCode, own?: Reservation): void {
    const { jobId } = gang;
    if (!isReporting || onlyFor !== undefined || reported.has(jobId)) return;
    const isFresh = reported.size < limits.freshReasons;
    reported.add(jobId);
    if (!isFresh && isOld(jobId, code)) return;
    if (plan.reportCount() >= limits.maxReasons) {
      isCut = true;
      plan.wakeAt(nowMs + RETRY_MS);
      return;
    }
    const reason = describe(gang, code, own);
    if (!isSame(reason, snapshot.reasons.get(jobId))) plan.report(gang, reason);
  }

  /**
   * Whether the code is news to a request behind the front of the queue. Where the ledger has little room for reasons, only what is
   * hopeless is told for the first time: it gives way to others.
   */
  function isOld(job: JobId, code: WaitCode): boolean {
    const former = snapshot.reasons.get(job)?.code;
    if (former !== undefined) return toldName(former) === toldName(code);
    return snapshot.isReasonRoomLow === true && !isHopeless(code);
  }

  function reportUntold(): void {
    if (snapshot.isReasonRoomLow === true) return;
    for (const request of snapshot.requests.values()) {
      const { jobId } = request;
      if (snapshot.reasons.has(jobId) || reported.has(jobId) || plan.grantedJobs.has(jobId))
        continue;
      if (holdOf(snapshot.holds, request) !== undefined) continue;
      if (plan.reportCount() >= limits.maxReasons) {
        plan.wakeAt(nowMs + RETRY_MS);
        return;
      }
      const gang = asOneGang(request, view);
      const fit = checkFeasibility(gang, view);
      const code = fit.kind === "wait" ? fit.code : "BehindEarlierJob";
      work.spend(fit.work);
      plan.wakeAt(wakeAtOf(gang, code, nowMs));
      report(gang, code);
    }
  }
}

/** Which of these it is may change with every cycle, for thousands of requests; behind the front it says only that GPUs are in use. */
const BUSY_CODES: ReadonlySet<PendingCode> = new Set([
  "WaitingForGpus",
  "BehindEarlierJob",
  "TopologyPlacementFailed",
]);

/** Reasons of equal names are news to a request, or are not, in the same cases. */
export const toldName = (former: PendingCode | undefined): string =>
  former === undefined ? "" : BUSY_CODES.has(former) ? "busy" : former;

const isSame = (a: PendingReason, b: PendingReason | undefined): boolean =>
  a.code === b?.code && a.message === b.message && JSON.stringify(a) === JSON.stringify(b);
