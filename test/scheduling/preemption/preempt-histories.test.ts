/** @file Laws of the ledger when GPUs are reserved and leases are evicted, under any history. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { popCount } from "../../../domain/lease/lease.ts";
import { apply, applyTo, checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import {
  ledgerOf,
  openTransaction,
  takeOutcome,
} from "../../../scheduling/ledger/apply/transaction.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Applied, Ledger, LedgerEvent } from "../../../scheduling/ledger/ledger.ts";
import { forbiddenTo, reservedOf } from "../../../scheduling/ledger/rules/reservation-index.ts";
import { fleets } from "../arbitraries.ts";
import { readyLedger } from "../builders.ts";
import { preemptHappenings } from "../preempt-happenings.ts";
import { caseCount } from "../../support/case-count.ts";

const histories = fleets.chain((shape) =>
  fc.record({
    shape: fc.constant(shape),
    steps: fc.array(fc.tuple(preemptHappenings(shape), fc.integer({ min: 0, max: 20 })), {
      minLength: 8,
      maxLength: 40,
    }),
  }),
);

interface Step {
  readonly before: Ledger;
  readonly event: LedgerEvent;
  readonly applied: Applied;
}

function always(law: (step: Step, all: readonly Step[]) => void, numRuns = caseCount(60)): void {
  fc.assert(
    fc.property(histories, ({ shape, steps }) => {
      let ledger = readyLedger(shape);
      let nowMs = 0;
      const all: Step[] = [];
      for (const [happening, pauseMs] of steps) {
        nowMs += pauseMs;
        const event = happening.eventOf(ledger, nowMs);
        nowMs = Math.max(nowMs, event.nowMs);
        const step = { before: ledger, event, applied: apply(ledger, event) };
        all.push(step);
        law(step, all);
        ledger = step.applied.ledger;
      }
    }),
    { numRuns },
  );
}

const textOf = (ledger: Ledger): string => JSON.stringify(packLedger(ledger));

test("every invariant holds after every event", () => {
  always(({ applied }) => expect(checkLedger(applied.ledger)).toEqual([]), 150);
});

test("a ledger comes back from JSON as it was", () => {
  always(({ applied: { ledger } }) => {
    const back = unpackLedger(JSON.parse(textOf(ledger)) as ReturnType<typeof packLedger>);
    expect(back).toEqual(ledger);
    expect([...(back.reservations?.keys() ?? [])]).toEqual([
      ...(ledger.reservations?.keys() ?? []),
    ]);
  });
});

test("an event has the same effect on the packed copy, and on a draft that has been open from the beginning", () => {
  fc.assert(
    fc.property(histories, ({ shape, steps }) => {
      let ledger = readyLedger(shape);
      const transaction = openTransaction(ledger);
      let nowMs = 0;
      for (const [happening, pauseMs] of steps) {
        nowMs += pauseMs;
        const event = happening.eventOf(ledger, nowMs);
        nowMs = Math.max(nowMs, event.nowMs);
        const { ledger: next, ...outcome } = apply(ledger, event);
        const copy = unpackLedger(packLedger(ledger));
        expect(textOf(apply(copy, event).ledger)).toBe(textOf(next));
        applyTo(transaction, event);
        expect(takeOutcome(transaction)).toEqual(outcome);
        expect(textOf(ledgerOf(transaction))).toBe(textOf(next));
        ledger = next;
      }
    }),
    { numRuns: caseCount(60) },
  );
});

test("no job is granted GPUs that are reserved for others, but a short one within the shadow time", () => {
  always(({ before, event, applied }) => {
    if (event.kind !== "plan") return;
    // What the plan sets apart counts already, and a job's own ends with its grant.
    const { ledger } = apply(before, { ...event, plan: { ...event.plan, items: [], evict: [] } });
    for (const id of applied.granted) {
      const lease = applied.ledger.leases.get(id);
      if (lease === undefined) throw new Error(`${id} came from nowhere`);
      const reserved = reservedOf(
        [...(ledger.reservations?.values() ?? [])].filter(
          ({ jobId }) => applied.ledger.reservations?.has(jobId) === true,
        ),
      );
      for (const { host, mask } of lease.gpus) {
        const request = { jobId: lease.jobId, ...lease.terms };
        const forbidden = forbiddenTo(reserved, request, { host, nowMs: event.nowMs });
        expect(popCount(mask & forbidden)).toBe(0);
      }
    }
  });
});

test("an eviction is on a lease that allows it, for a job that has GPUs of it reserved; nothing takes it back once it is sent", () => {
  always(({ before, applied: { ledger } }) => {
    for (const lease of ledger.leases.values()) {
      const former = before.leases.get(lease.id);
      if (former?.eviction?.isSent === true) expect(lease.eviction).toEqual(former.eviction);
      if (lease.eviction === undefined || former?.eviction !== undefined) continue;
      expect(lease.terms).toBeDefined();
      expect(ledger.reservations?.has(lease.eviction.forJob)).toBe(true);
    }
  });
});

test("nothing stays reserved for a job of which nothing is left", () => {
  always(({ applied: { ledger }, event }) => {
    const late = apply(ledger, { kind: "clock", nowMs: event.nowMs + 1e9 }).ledger;
    for (const job of late.reservations?.keys() ?? []) {
      const isAbout =
        late.requests.has(job) ||
        [...late.leases.values()].some(
          ({ jobId, eviction, state }) =>
            jobId === job && eviction !== undefined && state !== "vacating",
        );
      expect(isAbout).toBe(true);
    }
  });
});
