/** @file GPUs held and demanded by flow: pending evictions count as done, and what is due is divided over what flows demand. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Lease, Reservation } from "../../../domain/lease/lease.ts";
import { jobId, tenantId } from "../../../domain/values/ids.ts";
import {
  dueTo,
  heldIn,
  isSameClass,
  noteHeld,
  noteReleased,
  openHoldings,
  quotaKeyOf,
  surplusOf,
  wantedGpus,
} from "../../../scheduling/fairness/holdings.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { indexFleet } from "../../../scheduling/ledger/rules/fleet-index.ts";
import {
  ask,
  fleetShape,
  gangRequest,
  gpus,
  host,
  inbox,
  leased,
  readyLedger,
} from "../builders.ts";

const SHAPE = fleetShape(
  [{ hosts: [{}, { type: "A100" }] }],
  [{ id: "q", quota: { H100: 4, "*": 2 }, borrowing: 2 }],
);
const INDEX = indexFleet(SHAPE);
const READY = readyLedger(SHAPE);

/** Job `run` of tenant q holds 4 GPUs, job `wait` of tenant t waits for 8; both of class training. */
const LEDGER = inbox(leased(READY, { job: "run", tenant: "q", gpus: 4 }, gpus(["c0/h0", 0b1111])), [
  ask({ job: "wait", gpus: 8 }),
]).ledger;

const open = (ledger: Ledger, supplyGpus = 8) => openHoldings(ledger, INDEX, supplyGpus);
const evictedFor = (ledger: Ledger, forJob: string): Ledger => ({
  ...ledger,
  leases: new Map(
    [...ledger.leases].map(([id, lease]): [Lease["id"], Lease] => [
      id,
      { ...lease, eviction: { forJob: jobId(forJob), atMs: 0, lostGpuSeconds: 0 } },
    ]),
  ),
});
const reserving = (
  ledger: Ledger,
  kind: Reservation["kind"],
  job: string,
  mask: number,
): Ledger => ({
  ...ledger,
  reservations: new Map([
    [jobId(job), { jobId: jobId(job), kind, sinceMs: 0, gpus: gpus(["c0/h0", mask]) }],
  ]),
});

describe("a flow", () => {
  test("holds its leases and demands what its jobs hold and wait for", () => {
    const holdings = open(LEDGER);
    expect([...holdings.held]).toEqual([
      ["training", 4],
      ["training q", 4],
    ]);
    expect([...holdings.demand]).toEqual([
      ["training q", 4],
      ["training t", 8],
    ]);
    expect([...holdings.quota]).toEqual([["q H100", 4]]);
  });

  test("demands all gangs of its arrays, and nothing that can never start here", () => {
    expect(wantedGpus({ ...gangRequest({ gpus: 2, slots: 5 }), arrival: 1 })).toBe(10);
    const reason = { message: "", numbers: {}, holders: [], wakeOn: ["fleet-changed"] } as const;
    const demandWith = (code: "NoMatchingFlavor" | "WaitingForGpus") =>
      open({ ...LEDGER, reasons: new Map([[jobId("wait"), { ...reason, code }]]) }).demand;
    expect(demandWith("NoMatchingFlavor").get("training t")).toBeUndefined();
    expect(demandWith("WaitingForGpus").get("training t")).toBe(8);
  });

  test("is due no more than it demands, and has a surplus above what is due", () => {
    const holdings = open(LEDGER, 6);
    expect([dueTo(holdings, "training q"), dueTo(holdings, "training t")]).toEqual([3, 3]);
    expect(surplusOf(holdings, "training q")).toBe(1);
    expect(surplusOf(holdings, "training t")).toBe(-3);
    expect(dueTo(open(LEDGER, 99), "training q")).toBe(4);
    expect(dueTo(holdings, "inference")).toBe(0);
  });
});

describe("an eviction that is pending", () => {
  test("takes the GPUs from the flow of the lease, which demands them still", () => {
    const holdings = open(evictedFor(LEDGER, "wait"));
    expect(heldIn(holdings, "training q")).toBe(0);
    expect(holdings.demand.get("training q")).toBe(4);
  });

  test.each([
    { kind: "preemption", job: "wait", flow: "training t", want: 4 },
    { kind: "keep", job: "run", flow: "training q", want: 4 },
    { kind: "backfill", job: "wait", flow: "training t", want: 0 },
  ] as const)("gives them to the job of a reservation of kind $kind: $want", (each) => {
    const ledger = reserving(evictedFor(LEDGER, "wait"), each.kind, each.job, 0b1111);
    expect(heldIn(open(ledger), each.flow)).toBe(each.want);
  });
});

test("a vacating lease is held and demanded by no flow", () => {
  const ended = inbox(LEDGER, [
    { kind: "end", jobId: "run", runId: "run-run1", seq: 1, unconfirmedHosts: "all" },
  ]).ledger;
  expect(ended.leases.size).toBe(1);
  expect([...open(ended).held]).toEqual([]);
  expect([...open(ended).demand]).toEqual([["training t", 8]]);
});

test("the quota key of a host has the GPUs that are the tenant's own, without what it may borrow", () => {
  expect(quotaKeyOf(INDEX, tenantId("q"), host("c0/h0"))).toEqual({ name: "q H100", ownGpus: 4 });
  expect(quotaKeyOf(INDEX, tenantId("q"), host("c0/h1"))).toEqual({ name: "q *", ownGpus: 2 });
  expect(quotaKeyOf(INDEX, tenantId("t"), host("c0/h0"))).toBeUndefined();
  expect(quotaKeyOf(INDEX, tenantId("q"), host("c9/h9"))).toBeUndefined();
});

test("holding and releasing the same GPUs cancel out, whatever their order", () => {
  const holder = fc.record({
    tenant: fc.constantFrom("q", "t"),
    class: fc.constantFrom("training" as const, "inference" as const),
    at: fc.constantFrom("c0/h0", "c0/h1"),
    mask: fc.integer({ min: 1, max: 255 }),
  });
  fc.assert(
    fc.property(
      fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }),
      fc.array(holder, { maxLength: 4 }),
      (order, all) => {
        const holdings = open(LEDGER);
        const before = [[...holdings.held], [...holdings.quota]].map((counts) => new Map(counts));
        const of = (each: (typeof all)[number]) =>
          [{ ...each, tenant: tenantId(each.tenant) }, gpus([each.at, each.mask])] as const;
        for (const each of all) noteHeld(holdings, ...of(each));
        for (const at of order) {
          const each = all[at];
          if (each !== undefined) noteReleased(holdings, ...of(each));
        }
        for (const [at, counts] of [holdings.held, holdings.quota].entries())
          for (const [key, count] of counts) expect(count).toBe(before[at]?.get(key) ?? 0);
      },
    ),
  );
});

test("two holders are of one class whatever their tenants", () => {
  const of = (jobClass: "training" | "inference", tenant: string) => ({
    class: jobClass,
    tenant: tenantId(tenant),
  });
  expect(isSameClass(of("training", "q"), of("training", "t"))).toBe(true);
  expect(isSameClass(of("training", "q"), of("inference", "q"))).toBe(false);
});
