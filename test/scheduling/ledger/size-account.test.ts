/** @file The size of a packed ledger is known without packing it: never below the true one, and at most a tenth above it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import {
  ASKED_SIZE_RULES,
  RESOURCE_RULES,
  type Ledger,
} from "../../../scheduling/ledger/ledger.ts";
import { openByteShares, unusedBytes } from "../../../scheduling/ledger/rules/byte-shares.ts";
import { takeOrigin } from "../../../scheduling/ledger/codec-origin.ts";
import { ledgerBytes, openSize } from "../../../scheduling/ledger/size-account.ts";
import type { SizeAccount } from "../../../scheduling/ledger/size-state.ts";
import { utf8Length } from "../../../lib/utf8.ts";
import { OTHER_TENANTS } from "../../../scheduling/ledger/intake.ts";
import { fleets } from "../arbitraries.ts";
import { ask, fleetShape, inbox, readyLedger } from "../builders.ts";
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
        const { applyVersion } = unpacked;
        expect(figuresOf(openSize(unpacked, applyVersion, origin))).toEqual(
          figuresOf(openSize(unpacked, applyVersion)),
        );
      }
    }),
    { numRuns: caseCount(100) },
  );
});

describe("gangs that differ only in what they ask of their hosts", () => {
  const waiting = (applyVersion: number, ...cpus: readonly number[]): Ledger =>
    inbox(
      { ...readyLedger(fleetShape([{}])), applyVersion },
      cpus.map((each, at) =>
        ask({ job: `job${String(at)}`, gpus: 8, constraints: { resources: { cpus: each } } }),
      ),
    ).ledger;

  const sharedBytes = ({ applyVersion, shape, requests }: Ledger): number => {
    const unused = (of: Ledger["requests"]): number =>
      unusedBytes(openByteShares({ shape, applyVersion }, 1e9, of.values()), OTHER_TENANTS);
    return unused(new Map()) - unused(requests);
  };

  test.each([
    { what: "one row in the size", rules: ASKED_SIZE_RULES - 1, isTold: false },
    { what: "one row in the size", rules: RESOURCE_RULES, isTold: false },
    { what: "a row each in the size", rules: ASKED_SIZE_RULES, isTold: true },
  ])("have $what under rules $rules, and are packed apart", ({ rules, isTold }) => {
    const [alike, apart] = [waiting(rules, 2, 2), waiting(rules, 2, 4)];
    expect([...apart.requests.values()].map(({ constraints }) => constraints.resources)).toEqual([
      { cpus: 2 },
      { cpus: 4 },
    ]);
    expect(ledgerBytes(apart) > ledgerBytes(alike)).toBe(isTold);
    expect(sharedBytes(apart) > sharedBytes(alike)).toBe(isTold);
    const unpacked = unpackLedger(packLedger(apart));
    expect(unpacked.requests).toEqual(apart.requests);
    expect(ledgerBytes(unpacked)).toBe(ledgerBytes(apart));
    expect(figuresOf(openSize(unpacked, rules, takeOrigin(unpacked)))).toEqual(
      figuresOf(openSize(unpacked, rules)),
    );
  });
});
