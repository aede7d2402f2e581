/**
 * @file One scheduling cycle: passes through the queue, and decides for each request whether it starts now, and on which GPUs.
 *
 * A request that cannot start although the end of leases would help it may get a *backfill reservation*: exact GPUs wait for it from cycle
 * to cycle (reservation-set.ts), and later requests may use them only by the rules of access.ts. No request starves while run times are
 * bounded by T, grants of one tenant do not push back another's for ever (queue-policy.ts), and hosts stay up:
 *   1. The queue brings every request R to the front in bounded time Q. Then R starts, or gets a reservation, or waits until one of the
 *      at most H jobs with reservations starts and leaves it its place, or until its tenant has ended enough leases, whose quota it claims.
 *   2. A reservation is not preemptible after PREEMPTIBLE_BY_INFERENCE_MS. From then on its GPUs are granted only to jobs whose time limits
 *      end before the last of the GPUs is free; that time only comes nearer; so the job starts at most T later. The first of H jobs in a
 *      row waits for no other, the k-th at most for k−1 before it. GPUs in opportunistic use (opportunistic-backfill.ts) come back after
 *      G: a checkpoint's grace and the time after which the lease is revoked, three minutes together at most.
 *   Together: R starts within Q + (H + 1) · (PREEMPTIBLE_BY_INFERENCE_MS + T + G). Where backfill is patient, a request with checkpoints and
 *   without a time limit may reserve only after its patience and the delay of its level: both are bounded, and add to Q.
 * A request that could not start even if every lease ended gets no reservation, so it delays no other.
 * A job array stands in the queue with one gang, its first missing one. GPUs that are left after the passes, and reserved for no job, go to the
 * arrays that got theirs, in order (admit.ts); `apply` then sends what they still want to the end of the queue. So an array always has a
 * place in the queue, and no request waits behind more than one gang of it at a time.
 * Work is bounded by `limits`; what a cycle did not look at waits for the next one, at most `RETRY_MS` away.
 * Cost: O(log n) for the queue of n and O(clusters) to judge each kind, O(hosts) and the placement policy's own a grant.
 */

import type { PendingReason } from "../../domain/lease/pending.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import { nextRevivalAtMs } from "../capacity/site-links.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { nextWindowEndMs } from "../ledger/rules/limits.ts";
import { nextVictimAtMs } from "../preemption/candidate-index.ts";
import { closeReservations, openReservations } from "../reservation/reservation-set.ts";
import { reserveItems } from "../reservation/reserve-items.ts";
import { fillArrays } from "./admit.ts";
import { runAdmissionPass, type PassAnswer } from "./admission-pass.ts";
import {
  openCycleInput,
  type CycleInput,
  type CycleNow,
  type CycleOptions,
} from "./cycle-input.ts";
import { growShrunk, reclaimReserved } from "./evictions.ts";
import { mayRefill, openHeadroom, refillHeadroom } from "./headroom.ts";
import { isAtLimit, type CycleParts } from "./parts.ts";
import { heldReason, reportHeld } from "./held-requests.ts";
import { openPlanDraft, type PlanDraft } from "./plan-draft.ts";
import { isDismissing, RESERVATION_RULES } from "./policies.ts";
import { openPreemptionBudget } from "./preemption-budget.ts";
import { startReserved } from "./reserved-starts.ts";
import { openSchedulerCache, type SchedulerCache } from "./scheduler-cache.ts";
import { openWaitReports } from "./wait-reports.ts";
import { openWorkBudget } from "./work-budget.ts";

export { RETRY_MS, type CycleOptions } from "./cycle-input.ts";
export { isDismissing, type Backfill, type CycleLimits, type Policies } from "./policies.ts";
export type { DecidePorts } from "../admission/try-start.ts";

export interface Cycle {
  readonly plan: Plan;
  /** Requests of the queue up to `onlyFor`, it included; absent without `onlyFor`. */
  readonly position?: number;
  /** Why `onlyFor` waits; absent when it would start, or was not reached. */
  readonly answer?: PendingReason;
}

/** A further pass follows one in which reserved GPUs became open to all. */
const MAX_PASSES = 4;

/** On a ledger that is looked at once. */
export function runCycle(snapshot: Ledger, nowMs: number, options: CycleOptions): Cycle {
  const cache = openSchedulerCache(snapshot, options.policies.queue, {
    isDismissing: isDismissing(options),
  });
  return runCycleOn(cache, { snapshot, nowMs }, options);
}

/** On the cache of a live scheduler, which is left as it was. */
export function runCycleOn(cache: SchedulerCache, now: CycleNow, options: CycleOptions): Cycle {
  const { snapshot } = now;
  const { method } = options;
  const isIdle = snapshot.requests.size === 0 && cache.shrunk.size === 0;
  if (isIdle && !mayRefill({ snapshot, options }))
    return { plan: { items: [], pending: [], stats: { method, candidates: 0 } } };
  const { input, parts } = openCycle(cache, now, options);
  const { plan, reservations } = parts;
  try {
    const { position, reason } = schedule(input, parts);
    const stats = { method, candidates: parts.work.spent() };
    return {
      plan: plan.build(reserveItems(reservations, plan.grants), stats),
      ...(position !== undefined && { position }),
      ...(reason !== undefined && { answer: reason }),
    };
  } finally {
    plan.undoGrants();
    closeReservations(reservations);
  }
}

interface OpenCycle {
  readonly input: CycleInput;
  readonly parts: CycleParts;
}

function openCycle(cache: SchedulerCache, now: CycleNow, options: CycleOptions): OpenCycle {
  const { capacity } = cache;
  const { snapshot, nowMs } = now;
  const plan: PlanDraft = openPlanDraft({ capacity, nowMs });
  const input = openCycleInput(cache, now, { asked: options, granted: plan.holders });
  const work = openWorkBudget(options.limits.maxCandidates);
  const reservations = openReservations(capacity, {
    rule: RESERVATION_RULES[options.policies.backfill],
    nowMs,
    reservations: snapshot.reservations?.values() ?? [],
    requests: snapshot.requests,
  });
  const reports = openWaitReports(input, { plan, work, reservations });
  const preemption = openPreemptionBudget(input);
  return { input, parts: { plan, work, reservations, reports, preemption } };
}

function schedule(input: CycleInput, parts: CycleParts): PassAnswer {
  openHeadroom(input, parts.reservations);
  startReserved(input, parts);
  const answer = runPasses(input, parts);
  reportHeld(input, parts);
  if (input.options.onlyFor === undefined) fillArrays(input, parts);
  reclaimReserved(input, parts);
  growShrunk(input, parts);
  refillHeadroom(input, parts);
  wakeForClocks(input, parts);
  const { onlyFor } = input.options;
  const held = onlyFor && heldReason(input, onlyFor);
  return held === undefined ? answer : { ...answer, reason: held };
}

function runPasses(input: CycleInput, parts: CycleParts): PassAnswer {
  const { reservations } = parts;
  for (let pass = 1; ; pass += 1) {
    const { openings } = reservations;
    const answer = runAdmissionPass(input, parts, pass);
    const isLast = pass === MAX_PASSES || reservations.openings === openings || isAtLimit(parts);
    if (isLast || answer.position !== undefined) return answer;
  }
}

/** What time alone will change: a lease is protected no more, maintenance ends, a report of an outage is too old. */
function wakeForClocks(
  { cache, snapshot, nowMs }: CycleInput,
  { plan, preemption }: Pick<CycleParts, "plan" | "preemption">,
): void {
  const { index } = cache.capacity;
  if (preemption.isShortOfVictims()) plan.wakeAt(nextVictimAtMs(cache.victims, nowMs));
  if (snapshot.requests.size === 0) return;
  if (index.hasWindows) plan.wakeAt(nextWindowEndMs(index.clusters, nowMs));
  plan.wakeAt(nextRevivalAtMs(snapshot, nowMs));
}
