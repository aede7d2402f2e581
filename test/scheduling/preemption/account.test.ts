/** @file The account of one cycle's preemption: later requests are judged after the grants and evictions before them. */
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import { jobId, tenantId } from "../../../domain/values/ids.ts";
import { heldIn } from "../../../scheduling/fairness/holdings.ts";
import { openHoldingsBook } from "../../../scheduling/fairness/holdings-index.ts";
import { classFlow, tenantFlow } from "../../../scheduling/ledger/rules/flow.ts";
import {
  isAffordable,
  noteEvicted,
  noteGranted,
  noteMoved,
  noteRestarted,
  openPreemption,
} from "../../../scheduling/preemption/account.ts";
import { fleetShape, gpus, type RequestSpec } from "../builders.ts";
import { requestOf } from "../cycle-parts.ts";
import { drained, viewAt } from "../views.ts";
import { busyLedger, NOW_MS } from "./victims.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const BUDGET = DEFAULT_POLICY.preemptionBudgetGpuSeconds;
const H0 = gpus(["c0/h0", 0xff]);
const H1 = gpus(["c0/h1", 0xff]);
const NEXT: RequestSpec = { job: "next", class: "inference", tenant: "u", gpus: 8 };
const LEDGER = busyLedger(SHAPE, [["run", H0]], [NEXT]);

function open(ledger = LEDGER) {
  const account = openPreemption(ledger, viewAt(ledger).capacity, { nowMs: NOW_MS });
  if (account === undefined) throw new Error("the fleet preempts");
  const next = requestOf(ledger, "next");
  const [lease] = ledger.leases.values();
  if (lease === undefined) throw new Error("a job runs");
  const held = () =>
    [classFlow(lease), classFlow(next), tenantFlow(next)].map((flow) =>
      heldIn(account.holdings, flow),
    );
  return { account, next, lease, held };
}

describe("an account", () => {
  test("opens with the holdings and victims of the ledger, and nothing spent", () => {
    const { account, held } = open();
    expect(account.holdings.supplyGpus).toBe(16);
    expect(held()).toEqual([8, 0, 0]);
    expect(account.victims.all.size).toBe(1);
    expect([account.taken.size, account.spent.size]).toEqual([0, 0]);
    expect(open(drained(LEDGER, "c0/h1")).account.holdings.supplyGpus).toBe(8);
  });

  test("is none where the fleet does not preempt", () => {
    const ledger = {
      ...LEDGER,
      shape: { ...SHAPE, policy: { ...DEFAULT_POLICY, isPreempting: false } },
    };
    expect(openPreemption(ledger, viewAt(ledger).capacity, { nowMs: NOW_MS })).toBeUndefined();
  });

  test("reads the same from the indexes of a live scheduler", () => {
    const { capacity } = viewAt(LEDGER);
    const fresh = open().account;
    const live = openPreemption(LEDGER, capacity, {
      nowMs: NOW_MS,
      book: openHoldingsBook(LEDGER, capacity.index),
      victims: fresh.victims,
    });
    const read = ({ held, demand }: typeof fresh.holdings) => [
      [...held].sort(),
      [...demand].sort(),
    ];
    expect(live && read(live.holdings)).toEqual(read(fresh.holdings));
    expect(live?.victims).toBe(fresh.victims);
  });
});

describe("what the cycle does", () => {
  test("a grant is held at once", () => {
    const { account, next, held } = open();
    noteGranted(account, next, gpus(["c0/h1", 0x0f]));
    expect(held()).toEqual([8, 4, 4]);
  });

  test("a grant of what evictions have reserved for the job is counted once, an array's further gangs on top", () => {
    const reservation = { jobId: jobId("next"), kind: "preemption", sinceMs: 0, gpus: H1 } as const;
    const { account, next, held } = open({
      ...LEDGER,
      reservations: new Map([[reservation.jobId, reservation]]),
    });
    expect(held()).toEqual([8, 8, 8]);
    noteGranted(account, next, gpus(["c0/h1", 0x0f]));
    expect(held()).toEqual([8, 4, 4]);
    noteGranted(account, next, gpus(["c0/h1", 0x30]));
    expect(held()).toEqual([8, 6, 6]);
  });

  test("an eviction moves GPUs from the victim, less what it keeps, to the beneficiary, whose tenant pays", () => {
    const { account, next, lease, held } = open();
    const keep = gpus(["c0/h0", 0x03]);
    noteEvicted(account, {
      by: next,
      gpus: gpus(["c0/h0", 0xfc]),
      leases: [{ lease, keep }],
      lost: 100,
    });
    expect(held()).toEqual([2, 6, 6]);
    expect(account.taken).toEqual(new Set([lease.id]));
    expect([...account.spent]).toEqual([["u", 100]]);
  });

  test("a move changes no holding, and costs the sum of its losses", () => {
    const { account, lease, held } = open();
    const moves = [3, 4].map((lostGpuSeconds) => ({ lease, lostGpuSeconds }));
    noteMoved(account, tenantId("u"), moves);
    noteMoved(account, tenantId("u"), moves);
    expect(held()).toEqual([8, 0, 0]);
    expect([...account.spent]).toEqual([["u", 14]]);
    expect(account.taken.has(lease.id)).toBe(true);
  });

  test("a restart for its own sake costs no tenant anything", () => {
    const { account, lease, held } = open();
    noteRestarted(account, lease);
    expect(account.taken.has(lease.id)).toBe(true);
    expect([held(), account.spent.size]).toEqual([[8, 0, 0], 0]);
  });
});

describe("a tenant's budget", () => {
  const spend = (lost: number) => {
    const { account, next } = open();
    noteEvicted(account, { by: next, gpus: [], leases: [], lost });
    return account;
  };

  test("covers this cycle's losses up to the fleet's limit", () => {
    expect(isAffordable(spend(0), tenantId("u"), BUDGET)).toBe(true);
    expect(isAffordable(spend(10), tenantId("u"), BUDGET - 10)).toBe(true);
    expect(isAffordable(spend(10), tenantId("u"), BUDGET - 9)).toBe(false);
    expect(isAffordable(spend(10), tenantId("t"), BUDGET)).toBe(true);
  });

  test("covers the losses of the last hour, and none before", () => {
    const noted = (atMs: number) =>
      open({
        ...LEDGER,
        evictions: [{ tenant: tenantId("u"), atMs, lostGpuSeconds: BUDGET }],
      }).account;
    expect(isAffordable(noted(NOW_MS - 1), tenantId("u"), 1)).toBe(false);
    expect(isAffordable(noted(NOW_MS - 3_600_000), tenantId("u"), 1)).toBe(true);
  });
});
