/**
 * @file The fleet's cycles: when one begins, what it folds into the ledger, and how its plan is applied.
 *
 * A cycle is the live fleet's. It folds the entries that arrived into the ledger, `decide` answers, and nothing else changes the ledger
 * until the plan is applied; entries that come in between wait for the next cycle. A cycle begins when an entry has come or when the
 * wake-up time of the last plan is reached, at the earliest `cycleIntervalMs` after the one before, and never while another decides.
 */

import type { Lease } from "../domain/lease/lease.ts";
import type { Plan } from "../domain/lease/plan.ts";
import type { InboxEntry } from "../domain/lease/inbox-entry.ts";
import type { LedgerEvent } from "../scheduling/ledger/ledger.ts";
import type { Agenda } from "./agenda.ts";
import { eventQueue, type EventQueue } from "../lib/event-queue.ts";
import type { Metrics } from "./metrics.ts";
import type { SimulationCosts } from "./options.ts";
import type { Scheduler } from "./scheduler.ts";

export interface FleetCycles {
  /** An entry for the inbox of the fleet. */
  readonly send: (entry: InboxEntry) => void;
  /** An event that the next cycle folds in before its inbox. */
  readonly enqueue: (event: LedgerEvent) => void;
  /** An event that changes the ledger at once, or with the next cycle while one decides. */
  readonly report: (event: LedgerEvent) => void;
  /** Asks for a cycle as soon as one may begin. */
  readonly request: () => void;
  readonly begin: () => void;
  /** Applies the plan and gives the leases that it granted. */
  readonly apply: (plan: Plan, decidedAtMs: number) => AppliedPlan;
  /** Sets the wake-up time of the plan, and asks for another cycle where one is due. */
  readonly close: (plan: Plan, needsDecision: boolean) => void;
  readonly isDeciding: () => boolean;
  /** Infinite when no plan has set a time. */
  readonly wakeAtMs: () => number;
  /** Takes the next wake-up; only that of the last plan asks for a cycle. */
  readonly wake: () => void;
  /** When a grant was last made, or a job last arrived, ended or gave up GPUs. */
  readonly lastChangeAtMs: () => number;
}

interface AppliedPlan {
  readonly granted: readonly Lease[];
  readonly needsDecision: boolean;
}

interface FleetCyclesOptions {
  readonly scheduler: Scheduler;
  readonly metrics: Metrics;
  readonly costs: SimulationCosts;
  readonly agenda: Agenda;
}

export function openFleetCycles(options: FleetCyclesOptions): FleetCycles {
  const { scheduler, metrics, costs, agenda } = options;
  const { nowMs } = agenda;
  const wakes: EventQueue<number> = eventQueue();
  let inbox: InboxEntry[] = [];
  let events: LedgerEvent[] = [];
  let isDeciding = false;
  let isDue = false;
  let nextAtMs = 0;
  let wakeVersion = 0;
  let lastChangeAtMs = 0;

  const request = (): void => {
    if (isDeciding || isDue) return;
    isDue = true;
    agenda.enter(Math.max(nowMs(), nextAtMs), { kind: "cycle" });
  };

  return {
    request,
    send(entry) {
      inbox.push(entry);
      lastChangeAtMs = nowMs();
      request();
    },
    enqueue(event) {
      events.push(event);
    },
    report(event) {
      if (isDeciding) events.push(event);
      else scheduler.apply(event);
    },
    begin() {
      isDue = false;
      for (const event of events) scheduler.apply({ ...event, nowMs: nowMs() });
      events = [];
      if (inbox.length > 0) {
        const entries = inbox;
        inbox = [];
        metrics.noteEvents(1 + entries.length);
        const { refusals } = scheduler.apply({ kind: "inbox", entries, nowMs: nowMs() });
        const [refusal] = refusals;
        if (refusal !== undefined)
          throw new Error(`the ledger refused an entry of the simulation: ${refusal.message}`);
      }
      metrics.noteLedger(scheduler, nowMs());
      isDeciding = true;
      nextAtMs = nowMs() + costs.cycleIntervalMs;
      const plan = scheduler.decide(nowMs());
      agenda.enter(nowMs() + costs.decisionMs, { kind: "decided", plan, decidedAtMs: nowMs() });
    },
    /** At the time for which the plan was made, as in the live fleet: a job that fitted then by milliseconds still fits. */
    apply(plan, decidedAtMs) {
      isDeciding = false;
      const { granted, refusals, needsDecision } = scheduler.apply({
        kind: "plan",
        plan,
        nowMs: decidedAtMs,
      });
      metrics.noteCycle(plan, granted.length, refusals.length);
      if (granted.length > 0) {
        lastChangeAtMs = nowMs();
        scheduler.apply({ kind: "delivered", accepted: granted, gone: [], nowMs: nowMs() });
      }
      const { leases } = scheduler.ledger;
      return {
        granted: granted.flatMap((id): readonly Lease[] => {
          const lease = leases.get(id);
          return lease === undefined ? [] : [lease];
        }),
        needsDecision,
      };
    },
    close(plan, needsDecision) {
      if (needsDecision || inbox.length > 0 || events.length > 0) request();
      wakeVersion += 1;
      if (plan.wakeAtMs !== undefined) wakes.put(plan.wakeAtMs, 0, wakeVersion);
    },
    isDeciding: () => isDeciding,
    wakeAtMs: () => wakes.nextAtMs(),
    wake() {
      if (wakes.take()?.what === wakeVersion) request();
    },
    lastChangeAtMs: () => lastChangeAtMs,
  };
}
