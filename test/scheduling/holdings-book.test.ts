/** @file The account of holdings that follows a ledger is that of the whole ledger, after any history. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { openBrain, watchBrain, type Brain } from "../../scheduling/brain.ts";
import { applyTo } from "../../scheduling/apply.ts";
import { ledgerOf, openDraft, takeOutcome, type Draft } from "../../scheduling/draft.ts";
import { holdingsNow, openHoldingsBook } from "../../scheduling/holdings-book.ts";
import { openHoldings, type Holdings } from "../../scheduling/holdings.ts";
import { tawfq } from "../../scheduling/policy-sets.ts";
import { evictableAtMs } from "../../scheduling/evictable.ts";
import { fleets } from "./arbitraries.ts";
import { readyLedger } from "./builders.ts";
import { preemptHappenings } from "./preempt-happenings.ts";

const SUPPLY_GPUS = 24;

const histories = fleets.chain((shape) =>
  fc.record({
    shape: fc.constant(shape),
    steps: fc.array(fc.tuple(preemptHappenings(shape), fc.boolean()), {
      minLength: 5,
      maxLength: 40,
    }),
  }),
);

describe("an account of holdings that is kept up to date", () => {
  test("is the account of the whole ledger, whenever it is read", () => {
    fc.assert(
      fc.property(histories, ({ shape, steps }) => {
        let brain: Brain | undefined;
        const draft: Draft = openDraft(
          readyLedger(shape),
          watchBrain(
            () => brain,
            (host) => draft.hosts.get(host),
            () => {
              brain = undefined;
            },
          ),
        );
        steps.forEach(([happening, isRead], at) => {
          applyTo(draft, happening.eventOf(ledgerOf(draft), at * 7));
          takeOutcome(draft);
          const ledger = { ...ledgerOf(draft), reasons: new Map<never, never>() };
          brain ??= openBrain(ledger, tawfq.queue);
          const { index } = brain.capacity;
          const book = (brain.book ??= openHoldingsBook(ledger, index));
          expect([...brain.victims.all.keys()].sort()).toEqual(
            [...ledger.leases.values()]
              .filter((lease) => evictableAtMs(lease) < Infinity)
              .map(({ id }) => id)
              .sort(),
          );
          if (!isRead) return;
          const kept = holdingsNow(book, ledger, SUPPLY_GPUS);
          expect(figures(kept)).toEqual(figures(openHoldings(ledger, index, SUPPLY_GPUS)));
        });
      }),
      { numRuns: 60 },
    );
  });
});

const figures = ({ held, demand, quota, supplyGpus }: Holdings) => ({
  supplyGpus,
  held: nonZero(held),
  demand: nonZero(demand),
  quota: nonZero(quota),
});

const nonZero = (counts: ReadonlyMap<string, number>) =>
  [...counts].filter(([, count]) => count !== 0).sort(([a], [b]) => (a < b ? -1 : 1));
