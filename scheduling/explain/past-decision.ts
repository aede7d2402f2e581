/**
 * @file Reconstructs a past decision: the queue of that moment, the jobs that got GPUs, and the reasons of those that did not.
 *
 * The fleet's recorded events are applied again up to the plan in question, so the answer contains only what was known then.
 * Cost: O(events), and one pass through the queue.
 */

import type { JobId } from "../../domain/values/ids.ts";
import type { PendingReason } from "../../domain/lease/pending.ts";
import type { PendingRequest, Plan, PlanItem } from "../../domain/lease/plan.ts";
import { apply } from "../ledger/apply/apply.ts";
import type { Ledger, LedgerEvent } from "../ledger/ledger.ts";
import { queueOrder, type ClassLine } from "./queue-order.ts";

export interface Decision {
  readonly nowMs: number;
  readonly request: PendingRequest;
  readonly item: PlanItem;
  /** Place in the queue before the decision, from 1. */
  readonly position: number;
  readonly waiting: number;
  readonly classes: readonly ClassLine[];
  /** All other waiting jobs, in queue order. */
  readonly others: readonly Passed[];
  readonly plan: Plan;
}

export interface Passed {
  readonly request: PendingRequest;
  readonly position: number;
  /** It got GPUs in the same plan. */
  readonly isGranted: boolean;
  /** Reason of its wait, as it was last reported. */
  readonly reason?: PendingReason;
}

/** The last plan that granted the job GPUs and that `apply` accepted; undefined when no event did. */
export function decisionOn(
  job: JobId,
  { ledger: first, events }: { readonly ledger: Ledger; readonly events: readonly LedgerEvent[] },
): Decision | undefined {
  let found: Decision | undefined;
  let ledger = first;
  for (const event of events) {
    const { ledger: after, granted } = apply(ledger, event);
    const isIt = granted.some((id) => after.leases.get(id)?.jobId === job);
    if (event.kind === "plan" && isIt) found = decisionIn(ledger, after, { event, job }) ?? found;
    ledger = after;
  }
  return found;
}

function decisionIn(
  before: Ledger,
  after: Ledger,
  { event, job }: { readonly event: Extract<LedgerEvent, { kind: "plan" }>; readonly job: JobId },
): Decision | undefined {
  const { plan, nowMs } = event;
  const { classes, line } = queueOrder(before, nowMs);
  const at = line.findIndex(({ request }) => request.jobId === job);
  const item = plan.items.find(({ request }) => request.jobId === job);
  const own = line[at];
  if (own === undefined || item === undefined) return undefined;
  const winners = new Set(plan.items.map(({ request }) => request.jobId));
  const others = line.flatMap(({ request }, place): Passed[] => {
    if (request.jobId === job) return [];
    const reason = after.reasons.get(request.jobId) ?? before.reasons.get(request.jobId);
    const isGranted = winners.has(request.jobId);
    return [{ request, position: place + 1, isGranted, ...(!isGranted && reason && { reason }) }];
  });
  return {
    nowMs,
    request: own.request,
    item,
    position: at + 1,
    waiting: line.length,
    classes,
    others,
    plan,
  };
}
