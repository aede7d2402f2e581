/** @file The size of a packed ledger is known without packing it: never below the true one, and at most a tenth above it. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { takeOrigin } from "../../../scheduling/ledger/codec-origin.ts";
import { ledgerBytes, openSize } from "../../../scheduling/ledger/size-account.ts";
import type { SizeAccount } from "../../../scheduling/ledger/size-state.ts";
import { utf8Length } from "../../../lib/utf8.ts";
import { fleets } from "../arbitraries.ts";
import { readyLedger } from "../builders.ts";
import { careHappenings } from "../care-happenings.ts";
import { happenings } from "../happenings.ts";
import { preemptHappenings } from "../preempt-happenings.ts";
import { caseCount } from "../../support/case-count.ts";

/** The names of parts that a ledger lacks. */
const FRAME_BYTES = 469;

const figuresOf = ({ rows, tables, flows, growth, requests }: SizeAccount): unknown => ({
  rows,
  growth,
  requests,
  flows: flows.bytes(),
  tables: Object.entries(tables).map(([name, table]) => [name, table.bytes()]),
});

const bytesOf = (ledger: Ledger): number => utf8Length(JSON.stringify(packLedger(ledger)));

test("the size is never below the true one, at most a tenth and a frame above it, and the same after unpacking", () => {
  const histories = fleets.chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      steps: fc.array(
        fc.tuple(
          fc.oneof(happenings(shape), careHappenings(shape), preemptHappenings(shape)),
          fc.integer({ min: 0, max: 20 }),
        ),
        { minLength: 5, maxLength: 40 },
      ),
    }),
  );
  fc.assert(
    fc.property(histories, ({ shape, steps }) => {
      let ledger = readyLedger(shape);
      let nowMs = 0;
      for (const [happening, pauseMs] of steps) {
        nowMs += pauseMs;
        ledger = apply(ledger, happening.eventOf(ledger, nowMs)).ledger;
        const bytes = ledgerBytes(ledger);
        const trueBytes = bytesOf(ledger);
        expect(bytes).toBeGreaterThanOrEqual(trueBytes);
        expect(bytes).toBeLessThanOrEqual(1.1 * trueBytes + FRAME_BYTES);
        const unpacked = unpackLedger(packLedger(ledger));
        expect(ledgerBytes(unpacked)).toBe(bytes);
        const origin = takeOrigin(unpacked);
        expect(origin).toBeDefined();
        expect(figuresOf(openSize(unpacked, origin))).toEqual(figuresOf(openSize(unpacked)));
      }
    }),
    { numRuns: caseCount(100) },
  );
});
