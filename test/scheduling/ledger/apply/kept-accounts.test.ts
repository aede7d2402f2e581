/** @file `apply` is a function of ledger and event: what it keeps from one event to the next never shows. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { FleetShape } from "../../../../domain/fleet/fleet.ts";
import { apply } from "../../../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../../../scheduling/ledger/codec.ts";
import type { Applied, Ledger, LedgerEvent } from "../../../../scheduling/ledger/ledger.ts";
import { fleets } from "../../arbitraries.ts";
import { readyLedger } from "../../builders.ts";
import { careHappenings } from "../../care-happenings.ts";
import { happenings, type Happening } from "../../happenings.ts";
import { preemptHappenings } from "../../preempt-happenings.ts";
import { caseCount } from "../../../support/case-count.ts";

const written = ({ ledger, ...outcome }: Applied): string =>
  JSON.stringify([packLedger(ledger), outcome]);

/** Nothing is kept for a ledger that no event has left. */
const afresh = (ledger: Ledger): Ledger => ({ ...ledger });

const whatHappens = (shape: FleetShape): fc.Arbitrary<Happening> =>
  fc.oneof(happenings(shape), careHappenings(shape), preemptHappenings(shape));

interface Past {
  readonly before: Ledger;
  readonly event: LedgerEvent;
  readonly outcome: string;
}

test("an event has the same outcome with accounts that were kept and with accounts built afresh, on old ledgers too", () => {
  const histories = fleets.chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      steps: fc.array(
        fc.tuple(whatHappens(shape), fc.integer({ min: 0, max: 20 }), fc.option(fc.nat(40))),
        { minLength: 5, maxLength: 40 },
      ),
    }),
  );
  fc.assert(
    fc.property(histories, ({ shape, steps }) => {
      let ledger = readyLedger(shape);
      let nowMs = 0;
      const past: Past[] = [];
      for (const [happening, pauseMs, again] of steps) {
        nowMs += pauseMs;
        const event = happening.eventOf(ledger, nowMs);
        const wanted = written(apply(afresh(ledger), event));
        const applied = apply(ledger, event);
        expect(written(applied)).toBe(wanted);
        past.push({ before: ledger, event, outcome: wanted });
        const old = again === null ? undefined : past[again % past.length];
        if (old !== undefined) expect(written(apply(old.before, old.event))).toBe(old.outcome);
        ledger = applied.ledger;
      }
    }),
    { numRuns: caseCount(200) },
  );
});
