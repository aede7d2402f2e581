/** @file Fleets that recover: which tokens are believed after a loss, after another one, and after false reports in between. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { apply } from "../../../../scheduling/ledger/apply/apply.ts";
import {
  afterLoss,
  isRecovering,
  LATE_ANSWERS_MS,
  tokensBelow,
} from "../../../../scheduling/ledger/apply/ledger-recovery.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import { NEWEST_RULES, OLDEST_RULES, type Ledger } from "../../../../scheduling/ledger/ledger.ts";
import { fleetShape, hello, inbox, readyLedger } from "../../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}] }]));
const lost = (ledger: Ledger): Ledger => ({ ...READY, ...afterLoss(ledger) });
const sighting = (highestToken: number): unknown => hello(["c0/h0"], { highestToken });
/** More than one run of a fleet can grant. */
const GRANTS_A_RUN = 3_000 * 256;

describe("a fleet that has lost its ledger", () => {
  test("counts on far above what it knows, and believes tokens up to a bound", () => {
    const ledger = lost({ ...READY, nextToken: 5 });
    expect(ledger.nextToken).toBe(5 + 2 ** 20);
    expect(inbox(ledger, [sighting(5 + 2 ** 21 - 1)]).ledger.nextToken).toBe(5 + 2 ** 21);
    const refused = inbox(ledger, [sighting(5 + 2 ** 21)]);
    expect(refused.refusals).toMatchObject([{ code: "TokenUnknown" }]);
    expect(refused.ledger.nextToken).toBe(ledger.nextToken);
  });

  test("keeps to the first rules where it followed them", () => {
    const { recovery, nextToken } = lost({ ...READY, applyVersion: OLDEST_RULES });
    expect([recovery, nextToken]).toEqual([undefined, 1 + 2 ** 20]);
  });

  test("has recovered some time after everybody was asked, once and for all", () => {
    const asked = { kind: "recovery-asked", untilMs: 100 + LATE_ANSWERS_MS, nowMs: 100 } as const;
    const { ledger } = apply(lost(READY), asked);
    expect(isRecovering(ledger, 99 + LATE_ANSWERS_MS)).toBe(true);
    expect(isRecovering(ledger, 100 + LATE_ANSWERS_MS)).toBe(false);
    expect(apply(ledger, { ...asked, untilMs: 1e12 }).ledger).toBe(ledger);
    const late = inbox(ledger, [sighting(ledger.nextToken)], 100 + LATE_ANSWERS_MS);
    expect(late.refusals).toMatchObject([{ code: "TokenUnknown" }]);
  });

  test("carries that over continue-as-new", () => {
    for (const recovery of [{ tokensBelow: 7 }, { tokensBelow: 7, untilMs: 9 }]) {
      const ledger = { ...READY, recovery };
      const json = JSON.stringify(packLedger(ledger));
      expect(unpackLedger(JSON.parse(json))).toEqual(ledger);
    }
  });

  test("and loses it again and again, with false reports between, believes every token that it gave", () => {
    const run = fc.record({
      /** How far a false report raises the counter, of what is possible. */
      raised: fc.double({ min: 0, max: 1, noNaN: true }),
      granted: fc.integer({ min: 0, max: GRANTS_A_RUN }),
      isContinued: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(run, { minLength: 1, maxLength: 20 }), (runs) => {
        // What the input of the last run says, and what the fleet has come to.
        let input: Ledger = READY;
        let nextToken = input.nextToken;
        for (const { raised, granted, isContinued } of runs) {
          const most = tokensBelow({ ...input, nextToken }, 0);
          nextToken += Math.floor((most - nextToken) * raised) + granted;
          if (isContinued) input = { ...input, nextToken };
          const next = lost(input);
          expect(tokensBelow(next, 0)).toBeGreaterThanOrEqual(nextToken);
          input = next;
          nextToken = next.nextToken;
        }
        expect(input.applyVersion).toBe(NEWEST_RULES);
      }),
    );
  });
});
