/** @file The account of holdings that follows a ledger is that of the whole ledger, after any history. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  openSchedulerCache,
  watchScheduler,
  type SchedulerCache,
} from "../../../scheduling/cycle/scheduler-cache.ts";
import { applyTo } from "../../../scheduling/ledger/apply/apply.ts";
import {
  ledgerOf,
  openTransaction,
  takeOutcome,
  type LedgerTransaction,
} from "../../../scheduling/ledger/apply/transaction.ts";
import { holdingsNow, openHoldingsBook } from "../../../scheduling/fairness/holdings-index.ts";
import { openHoldings, type Holdings } from "../../../scheduling/fairness/holdings.ts";
import { tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import { isSpared } from "../../../scheduling/ledger/rules/queue-holds.ts";
import { evictableAtMs } from "../../../scheduling/preemption/eviction-cost.ts";
import { fleets } from "../arbitraries.ts";
import { readyLedger } from "../builders.ts";
import { preemptHappenings } from "../preempt-happenings.ts";
import { caseCount } from "../../support/case-count.ts";

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
        let cache: SchedulerCache | undefined;
        const transaction: LedgerTransaction = openTransaction(
          readyLedger(shape),
          watchScheduler(
            () => cache,
            (host) => transaction.hosts.get(host),
            () => {
              cache = undefined;
            },
          ),
        );
        steps.forEach(([happening, isRead], at) => {
          applyTo(transaction, happening.eventOf(ledgerOf(transaction), at * 7));
          takeOutcome(transaction);
          const ledger = { ...ledgerOf(transaction), reasons: new Map<never, never>() };
          cache ??= openSchedulerCache(ledger, tawfq.queue);
          const { index } = cache.capacity;
          const book = (cache.book ??= openHoldingsBook(ledger, index));
          expect([...cache.victims.all.keys()].sort()).toEqual(
            [...ledger.leases.values()]
              .filter((lease) => evictableAtMs(lease) < Infinity && !isSpared(ledger.holds, lease))
              .map(({ id }) => id)
              .sort(),
          );
          if (!isRead) return;
          const kept = holdingsNow(book, ledger, SUPPLY_GPUS);
          expect(figures(kept)).toEqual(figures(openHoldings(ledger, index, SUPPLY_GPUS)));
        });
      }),
      { numRuns: caseCount(60) },
    );
  });
});

const figures = ({ held, demand, waiting, quota, supplyGpus }: Holdings) => ({
  supplyGpus,
  held: nonZero(held),
  demand: nonZero(demand),
  waiting: nonZero(waiting),
  quota: nonZero(quota),
});

const nonZero = (counts: ReadonlyMap<string, number>) =>
  [...counts].filter(([, count]) => count !== 0).sort(([a], [b]) => (a < b ? -1 : 1));
