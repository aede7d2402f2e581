/** @file The law of the session: after any history it decides, and knows, what a fresh look at its ledger would. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import type { Policies } from "../../../scheduling/cycle/cycle.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import { drf, easy, fifo, tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import { openSession } from "../../../scheduling/cycle/live-scheduler.ts";
import { fleets } from "../arbitraries.ts";
import { ask, fleetShape, readyLedger } from "../builders.ts";
import { happenings } from "../happenings.ts";
import { caseCount } from "../../support/case-count.ts";

const histories = fleets.chain((shape) =>
  fc.record({
    shape: fc.constant(shape),
    other: fleets,
    steps: fc.array(fc.tuple(happenings(shape), fc.integer({ min: 0, max: 20 })), {
      minLength: 5,
      maxLength: 25,
    }),
  }),
);

describe("a session", () => {
  test.each<{ name: string; policies: Policies }>([
    { name: "tawfq", policies: tawfq },
    { name: "fifo", policies: fifo },
    { name: "easy", policies: easy },
    { name: "drf", policies: drf },
  ])("with $name decides after every event as decide does on the packed ledger", ({ policies }) => {
    fc.assert(
      fc.property(histories, ({ shape, other, steps }) => {
        const start = readyLedger(shape);
        const session = openSession(start, { policies });
        let ledger = start;
        let nowMs = 0;
        steps.forEach(([happening, pauseMs], at) => {
          nowMs += pauseMs;
          const event =
            at === steps.length - 3
              ? ({ kind: "fleet-changed", shape: other, nowMs } as const)
              : happening.eventOf(ledger, nowMs);
          const applied = apply(ledger, event);
          const { ledger: _own, ...outcome } = session.apply(event);
          const { ledger: next, ...want } = applied;
          expect(outcome).toEqual(want);
          expect(JSON.stringify(packLedger(session.ledger))).toBe(JSON.stringify(packLedger(next)));
          ledger = next;
          const fresh = unpackLedger(packLedger(ledger));
          expect(session.decide(nowMs)).toEqual(decide(fresh, nowMs, {}, { policies }));
        });
      }),
      { numRuns: caseCount(40) },
    );
  });

  test("gives the same plan twice, and its ledger is not changed by that", () => {
    const shape = fleetShape([{ hosts: [{}, {}] }]);
    const session = openSession(readyLedger(shape));
    const entries = [3, 16, 1, 8, 2].map((gpus, at) =>
      ask({ job: `j${at}`, gpus, submittedAtMs: at }),
    );
    session.apply({ kind: "inbox", entries, nowMs: 5 });
    const before = JSON.stringify(packLedger(session.ledger));
    const plan = session.decide(5);
    expect(session.decide(5)).toEqual(plan);
    expect(plan.items.length).toBeGreaterThan(0);
    expect(JSON.stringify(packLedger(session.ledger))).toBe(before);
  });
});
