/** @file The scheduler's cache: what follows the events is what a whole ledger gives, and kinds of requests by what matters to them. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { ms } from "../../../domain/values/units.ts";
import { tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import {
  fewestGpus,
  leastLimitMs,
  openSchedulerCache,
  watchScheduler,
  type SchedulerCache,
} from "../../../scheduling/cycle/scheduler-cache.ts";
import type { QueueView } from "../../../scheduling/queue/queue-policy.ts";
import { applyTo } from "../../../scheduling/ledger/apply/apply.ts";
import { ledgerOf, openTransaction } from "../../../scheduling/ledger/apply/transaction.ts";
import type { Ledger, LedgerEvent } from "../../../scheduling/ledger/ledger.ts";
import { ask, end, fleetShape, gpus, grantItem, planOf, readyLedger } from "../builders.ts";
import { requestOf } from "../cycle-parts.ts";
import { ledgerWith } from "../reservation/reservations.ts";

const open = (ledger: Ledger): SchedulerCache => openSchedulerCache(ledger, tawfq.queue);

const countsOf = ({
  sizes,
  inference,
  shrunk,
  runningGpus,
  victims,
  queue,
  capacity,
}: SchedulerCache) => ({
  sizes: [...sizes].sort(([a], [b]) => a - b),
  inference: [...inference],
  shrunk: [...shrunk],
  running: [...runningGpus].filter(([, count]) => count !== 0).sort(),
  victims: [...victims.all.keys()],
  waiting: queue.size(),
  masks: [...capacity.hosts.values()].map(({ leasedMask, reservedMask }) => [
    leasedMask,
    reservedMask,
  ]),
});

describe("the cache", () => {
  const inboxOf = (entries: readonly unknown[]): LedgerEvent => ({
    kind: "inbox",
    entries,
    nowMs: 0,
  });
  const reserve = { jobId: jobId("b"), gpus: gpus(["c0/h1", 0xff]), kind: "backfill" } as const;
  const events: readonly LedgerEvent[] = [
    inboxOf([
      ask({ job: "a", gpus: 8, gang: { min: 2, timeoutMs: ms(0) } }),
      ask({ job: "b", gpus: 16, class: "inference" }),
    ]),
    {
      kind: "plan",
      plan: { ...planOf([grantItem("a", gpus(["c0/h0", 0x0f]))]), reserve: [reserve] },
      nowMs: 0,
    },
    inboxOf([ask({ job: "c", gpus: 3 })]),
    inboxOf([end("b"), end("a")]),
  ];

  test("follows every event as if it were opened anew", () => {
    const start = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
    const cache = open(start);
    const transaction = openTransaction(
      start,
      watchScheduler(
        () => cache,
        (host) => transaction.hosts.get(host),
        () => undefined,
      ),
    );
    for (const event of events) {
      applyTo(transaction, event);
      expect(countsOf(cache)).toEqual(countsOf(open(ledgerOf(transaction))));
    }
    expect(fewestGpus(cache)).toBe(3);
  });

  test("knows the fewest GPUs with which any request would start", () => {
    expect(fewestGpus(open(ledgerWith([], [])))).toBe(Infinity);
    const ledger = ledgerWith(
      [],
      [
        { job: "a", gpus: 8, gang: { min: 2, timeoutMs: ms(0) } },
        { job: "b", gpus: 4 },
      ],
    );
    expect(fewestGpus(open(ledger))).toBe(2);
  });
});

describe("kinds of requests", () => {
  let kindOf: QueueView["kindOf"];
  const queue = {
    open: (view: QueueView) => {
      ({ kindOf } = view);
      return tawfq.queue.open(view);
    },
  };
  const ledger = ledgerWith([], [{ job: "a", gpus: 8, timeLimitMs: ms(1_000) }]);
  openSchedulerCache(ledger, queue);
  const a = requestOf(ledger, "a");
  const isAlike = (change: Partial<PendingRequest>): boolean =>
    typeof kindOf === "function" && kindOf(a) === kindOf({ ...a, ...change });

  test.each<{ name: string; change: Partial<PendingRequest>; want: boolean }>([
    { name: "the same for another job", change: { jobId: jobId("b") }, want: true },
    {
      name: "the same for equal constraints",
      change: { constraints: { ...a.constraints } },
      want: true,
    },
    {
      name: "the same for a limit of the same order",
      change: { timeLimitMs: ms(1_023) },
      want: true,
    },
    {
      name: "another for a limit of another order",
      change: { timeLimitMs: ms(1_024) },
      want: false,
    },
    { name: "another for another class", change: { class: "inference" }, want: false },
    { name: "another for an array", change: { slots: 2 }, want: false },
    { name: "another for another size", change: { gang: { ...a.gang, gpus: 9 } }, want: false },
  ])("are $name", ({ change, want }) => {
    expect(isAlike(change)).toBe(want);
  });

  test("have no limit below the least of their order", () => {
    expect(leastLimitMs(a)).toBe(512);
    expect(leastLimitMs({})).toBe(Infinity);
  });
});
