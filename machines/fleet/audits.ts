/**
 * @file When a fleet audits the jobs that hold leases or wait, one audit at a time, and what follows from its report.
 *
 * While anything is held or waits an audit runs every 30 s, every 10 minutes once nothing has changed for 5, and every second
 * while a lease is suspect. A job that was found closed loses its request and its leases.
 */

import type { AuditReport } from "../../protocol/control-contract.ts";
import { auditOrder, auditPeriodMs } from "./audit-order.ts";
import { COST, spend } from "./continue.ts";
import { fold, isIdle, issue, update, type FleetState, type FleetStep } from "./state.ts";

/** Infinite while an audit is under way, or there is nothing to audit. */
export function nextAuditAtMs({ ledger, audits }: FleetState): number {
  const { underway, auditedAtMs, idleAtMs, changedAtMs } = audits;
  if (underway !== undefined || isIdle(ledger)) return Infinity;
  return Math.max(auditedAtMs, idleAtMs) + auditPeriodMs(ledger, auditedAtMs - changedAtMs);
}

export function startAudit(step: FleetStep): FleetStep {
  const { ledger, audits, nextId } = step.state;
  const order = auditOrder(ledger, audits.auditedCount);
  const auditedCount = audits.auditedCount + order.holders.length;
  const started = update(step, { audits: { ...audits, auditedCount, underway: nextId } });
  return issue(spend(started, COST.background, [order.holders, order.asked]), (id) => {
    return { kind: "audit", id, order };
  });
}

/** The report of an activity that gave up. */
export const NOTHING_FOUND: AuditReport = { closed: [] };

/** After each audit, losses and sweeps that have had no effect are sent again. */
export function endAudit(
  step: FleetStep,
  { id, report: { closed } }: { readonly id: number; readonly report: AuditReport },
  nowMs: number,
): FleetStep {
  if (step.state.audits.underway !== id) return step;
  const folded = closed.length > 0 ? fold(step, { kind: "audited", closed, nowMs }) : step;
  const { audits, deliveries } = folded.state;
  return update(folded, {
    audits: { ...audits, underway: undefined, auditedAtMs: nowMs },
    deliveries: { ...deliveries, reported: new Set() },
    isTurnDue: true,
  });
}
