/** @file Sizes of notes of the past, measured without writing them: equal to those of their packed forms, after any ends of runs. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { JOB_CLASSES } from "../../../domain/job/job.ts";
import { tenantId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { withTexts } from "../../../scheduling/ledger/codec-compact.ts";
import { packDemand, packRuns } from "../../../scheduling/ledger/codec-notes.ts";
import type { RunNote } from "../../../scheduling/ledger/ledger.ts";
import {
  noteDemand,
  openDemand,
  traceOf,
} from "../../../scheduling/ledger/rules/inference-demand.ts";
import { demandBytes, runsBytes } from "../../../scheduling/ledger/size-notes.ts";
import { jsonBytes } from "../../../scheduling/ledger/size-table.ts";

/** Whole in a fleet, and broken in a simulation. */
const time = fc.oneof(fc.nat(), fc.double({ min: 0, max: 1e12, noNaN: true }));
const tenants = Array.from({ length: 12 }, (_, at) => tenantId(`tenant-${String(at)}`));

const run: fc.Arbitrary<RunNote> = fc
  .record({
    class: fc.constantFrom(...JOB_CLASSES),
    tenant: fc.constantFrom(...tenants),
    gpus: fc.integer({ min: 1, max: 2_000 }),
    submittedAtMs: time,
    grantedAtMs: time,
    endedAtMs: time,
    limit: fc.option(fc.nat(), { nil: undefined }),
  })
  .map(({ limit, ...note }) => ({
    ...note,
    ...(limit !== undefined && { timeLimitMs: ms(limit) }),
  }));

test("runs take the bytes of their packed form, also where some of them have been measured behind others", () => {
  fc.assert(
    fc.property(fc.array(run, { maxLength: 40 }), fc.array(fc.nat(40)), (notes, dropped) => {
      const check = (left: readonly RunNote[]): void =>
        expect(runsBytes(left)).toBe(jsonBytes(withTexts(packRuns, left)));
      let left: readonly RunNote[] = notes;
      check(left);
      for (const place of dropped) {
        left = left.filter((_, at) => at !== place);
        check(left);
      }
    }),
  );
});

test("the demand of inference jobs takes the bytes of its packed form", () => {
  const slot = fc.tuple(fc.nat(10_000), fc.nat(3_000), fc.nat(3_000));
  fc.assert(
    fc.property(fc.nat(5_000), fc.array(slot), (gpus, slots) => {
      expect(demandBytes({ gpus, slots })).toBe(jsonBytes(packDemand({ gpus, slots })));
    }),
  );
});

test("the demand of inference jobs takes the bytes of its packed form after each change, while seconds come and go", () => {
  const step = fc.record({ more: fc.integer({ min: -40, max: 400 }), afterMs: fc.nat(90_000) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const book = openDemand({ leases: new Map(), requests: new Map() });
      let nowMs = 0;
      for (const { more, afterMs } of steps) {
        nowMs += afterMs;
        noteDemand(book, more, nowMs);
        const trace = traceOf(book);
        expect(demandBytes(trace)).toBe(jsonBytes(packDemand(trace)));
      }
    }),
  );
});
