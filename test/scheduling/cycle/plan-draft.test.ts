/** @file The plan while it is made: a grant is on the capacity until it is undone, and everything entered is in the plan. */
import { describe, expect, test } from "vitest";
import { MAX_PLAN_ITEMS, type PlanItem } from "../../../domain/lease/plan.ts";
import { jobId, leaseId, token } from "../../../domain/values/ids.ts";
import { openCapacity } from "../../../scheduling/capacity/capacity.ts";
import { fleetCounts } from "../../../scheduling/cycle/fleet-counts.ts";
import { openPlanDraft } from "../../../scheduling/cycle/plan-draft.ts";
import { grantItem, gpus } from "../builders.ts";
import { requestOf } from "../cycle-parts.ts";
import { H0, H1, ledgerWith } from "../reservation/reservations.ts";

const LEDGER = ledgerWith(
  [],
  [
    { job: "a", gpus: 8 },
    { job: "array", gpus: 2, slots: 3 },
  ],
);
const A = requestOf(LEDGER, "a");
const ARRAY = requestOf(LEDGER, "array");
const STATS = { method: "decide", candidates: 3 } as const;
const WAIT = { code: "WaitingForGpus", message: "", numbers: {}, holders: [], wakeOn: [] } as const;

const open = () => {
  const capacity = openCapacity(LEDGER);
  return { capacity, plan: openPlanDraft({ capacity, nowMs: 10 }) };
};

describe("a draft", () => {
  test("enters a grant on the capacity, and takes it back", () => {
    const { capacity, plan } = open();
    plan.grant(A, grantItem("a", H0));
    expect(fleetCounts(capacity).open).toBe(8);
    expect(plan.holders).toEqual([{ jobId: A.jobId, tenant: A.tenant, gpus: H0 }]);
    expect([...plan.grantedJobs]).toEqual(["a"]);
    plan.undoGrants();
    expect(fleetCounts(capacity).open).toBe(16);
  });

  test("joins what an array gets on one host into one item", () => {
    const { plan } = open();
    const item = (mask: number): PlanItem => ({
      ...grantItem("array", gpus(["c0/h0", mask])),
      slots: 1,
    });
    plan.grant(ARRAY, item(0b11));
    plan.grant(ARRAY, item(0b1100));
    expect(plan.build([], STATS).items).toMatchObject([
      { slots: 2, gpus: gpus(["c0/h0", 0b1111]) },
    ]);
    expect(plan.grants).toHaveLength(2);
  });

  test("is full at the most items that a plan may have", () => {
    const { plan } = open();
    expect(plan.isFull()).toBe(false);
    for (let at = 0; at < MAX_PLAN_ITEMS; at += 1) plan.grant(A, grantItem(`a${at}`, []));
    expect(plan.isFull()).toBe(true);
  });

  test("becomes a plan of reservations, evictions, reasons and the earliest time", () => {
    const { plan } = open();
    const lease = leaseId(token(7));
    const evict = { kind: "evict", lease, forJob: A.jobId, lostGpuSeconds: 1, reason: "" } as const;
    plan.evict({ evict: [evict], reserve: [{ jobId: A.jobId, gpus: H0, kind: "preemption" }] });
    plan.report(A, WAIT);
    plan.wakeAt(900);
    plan.wakeAt(500);
    const other = { jobId: jobId("b"), gpus: H1, kind: "backfill" } as const;
    const { jobId: job, runId, seq } = A;
    expect(plan.build([other], STATS)).toEqual({
      items: [],
      reserve: [other, { jobId: A.jobId, gpus: H0, kind: "preemption" }],
      evict: [evict],
      pending: [{ request: { jobId: job, runId, seq }, reason: WAIT }],
      wakeAtMs: 500,
      stats: STATS,
    });
  });

  test("withdraws the last report of a job that starts after all, and no other", () => {
    const { plan } = open();
    plan.report(A, WAIT);
    plan.withdrawReport(ARRAY.jobId);
    expect(plan.reportCount()).toBe(1);
    plan.withdrawReport(A.jobId);
    expect(plan.reportCount()).toBe(0);
  });
});
