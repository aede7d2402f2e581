/** @file A ledger that was unpacked, changed and packed again has the packed form that it would have if nothing of its rows were remembered. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PackedLedger } from "../../../domain/lease/packed-ledger.ts";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { fleets } from "../arbitraries.ts";
import { ask, end, fleetShape, gpus, inbox, leased, readyLedger } from "../builders.ts";
import { careHappenings } from "../care-happenings.ts";
import { happenings } from "../happenings.ts";
import { preemptHappenings } from "../preempt-happenings.ts";
import { caseCount } from "../../support/case-count.ts";

const textOf = (ledger: Ledger): string => JSON.stringify(packLedger(ledger));

/** The rows that are remembered belong to the description. */
const withNothingRemembered = (ledger: Ledger): Ledger => ({
  ...ledger,
  shape: structuredClone(ledger.shape),
});

const continued = (ledger: Ledger): Ledger =>
  unpackLedger(JSON.parse(textOf(ledger)) as ReturnType<typeof packLedger>);

test("rows that are remembered from the run's input give the same packed form, to the byte", () => {
  const histories = fleets.chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      steps: fc.array(
        fc.record({
          happening: fc.oneof(happenings(shape), careHappenings(shape), preemptHappenings(shape)),
          pauseMs: fc.integer({ min: 0, max: 20 }),
          isEndOfRun: fc.boolean(),
        }),
        { minLength: 5, maxLength: 40 },
      ),
    }),
  );
  fc.assert(
    fc.property(histories, ({ shape, steps }) => {
      let ledger = continued(readyLedger(shape));
      let nowMs = 0;
      for (const { happening, pauseMs, isEndOfRun } of steps) {
        nowMs += pauseMs;
        ledger = apply(ledger, happening.eventOf(ledger, nowMs)).ledger;
        const text = textOf(ledger);
        expect(text).toBe(textOf(withNothingRemembered(ledger)));
        const turned = { ...ledger, requests: new Map([...ledger.requests].reverse()) };
        expect(textOf(turned)).toBe(textOf(withNothingRemembered(turned)));
        if (isEndOfRun) ledger = continued(ledger);
      }
    }),
    { numRuns: caseCount(100) },
  );
});

test("what has not changed since is packed as it was, without being packed again", () => {
  const shape = fleetShape([{ hosts: [{}, {}] }]);
  const waiting = ["job-1", "job-2", "job-3"].map((job) => ask({ job }));
  const busy = leased(readyLedger(shape), {}, gpus(["c0/h1", 1]));
  const input = packLedger(inbox(busy, waiting).ledger);
  const next = inbox(unpackLedger(input), [end("job-2")]).ledger;
  const [before, after] = [rowsOf(input), rowsOf(packLedger(next))];
  expect(after.requests).toHaveLength(2);
  expect(after.requests[0]).toBe(before.requests[0]);
  expect(after.requests[1]).toBe(before.requests[2]);
  expect(after.leases[0]).toBe(before.leases[0]);
});

/** As codec-compact.ts writes them. */
const rowsOf = (packed: PackedLedger): Record<"requests" | "leases", readonly unknown[]> =>
  packed as unknown as Record<"requests" | "leases", readonly unknown[]>;
