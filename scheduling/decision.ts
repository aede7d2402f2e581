/**
 * @file A decision that was taken: the line as it stood then, who got GPUs, and why those before a job in line did not.
 *
 * What the fleet recorded is folded through `apply` again up to the plan in question, so what is told is what was known then, no more.
 * Cost: O(events), and one look at the queue.
 */

import type { JobId } from "../domain/ids.ts";
import type { PendingReason } from "../domain/pending.ts";
import type { PendingRequest, Plan, PlanItem } from "../domain/plan.ts";
import { apply } from "./apply.ts";
import type { Ledger, LedgerEvent } from "./ledger.ts";
import { lineUp, type ClassLine } from "./line-up.ts";

export interface Decision {
  readonly nowMs: number;
  readonly request: PendingRequest;
  readonly item: PlanItem;
  /** Place in line before the decision, from 1. */
  readonly position: number;
  readonly waiting: number;
  readonly classes: readonly ClassLine[];
  /** All who waited, in line. */
  readonly others: readonly Passed[];
  readonly plan: Plan;
}

export interface Passed {
  readonly request: PendingRequest;
  readonly position: number;
  /** It got GPUs in the same plan. */
  readonly isGranted: boolean;
  /** Why it did not, as it was told then or before. */
  readonly reason?: PendingReason;
}

/** The last plan that granted the job anything and that `apply` followed; undefined when none of these events did. */
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
  const { classes, line } = lineUp(before, nowMs);
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
