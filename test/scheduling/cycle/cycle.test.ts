/** @file A whole cycle: its steps leave one plan, and the scheduler's cache as it was. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { runCycle, runCycleOn, type CycleOptions } from "../../../scheduling/cycle/cycle.ts";
import { DECIDE_LIMITS } from "../../../scheduling/cycle/decide.ts";
import { tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import { openSchedulerCache } from "../../../scheduling/cycle/scheduler-cache.ts";
import { H0, H1, ledgerWith } from "../reservation/reservations.ts";

const OPTIONS: CycleOptions = {
  policies: tawfq,
  ports: {},
  limits: DECIDE_LIMITS,
  method: "decide",
};
const NOW_MS = 600_000;

describe("a cycle", () => {
  test("without requests decides nothing", () => {
    const { plan } = runCycle(ledgerWith([["run", H0]], []), NOW_MS, OPTIONS);
    expect(plan).toEqual({ items: [], pending: [], stats: { method: "decide", candidates: 0 } });
  });

  test("puts grants, reservations, reasons and the next time into one plan", () => {
    const ledger = ledgerWith(
      [["run", H0]],
      [
        { job: "a", gpus: 4 },
        { job: "b", gpus: 16, gang: { min: 8, timeoutMs: ms(700_000) } },
      ],
    );
    const { plan } = runCycle(ledger, NOW_MS, OPTIONS);
    expect(plan.items).toMatchObject([{ request: { jobId: "a" } }]);
    // The GPUs of the grant are left out: `apply` enters reservations before grants.
    expect(plan.reserve).toMatchObject([
      { jobId: "b", kind: "backfill", gpus: [H0[0], { host: "c0/h1", mask: 0xf0 }] },
    ]);
    expect(plan.pending).toMatchObject([{ request: { jobId: "b" } }]);
    expect(plan.wakeAtMs).toBe(700_000);
    expect(plan.stats.candidates).toBeGreaterThan(0);
  });

  test("gives arrays what the queue leaves, after every other request", () => {
    const ledger = ledgerWith(
      [],
      [
        { job: "array", gpus: 2, slots: 9 },
        { job: "late", gpus: 4 },
      ],
    );
    const { plan } = runCycle(ledger, NOW_MS, OPTIONS);
    const slots = plan.items
      .filter(({ request }) => request.jobId === "array")
      .reduce((sum, item) => sum + (item.slots ?? 0), 0);
    expect(slots).toBe(6);
    expect(plan.items.some(({ request }) => request.jobId === "late")).toBe(true);
  });

  test("answers about one job", () => {
    const ledger = ledgerWith(
      [
        ["run", H0],
        ["more", H1],
      ],
      [{ job: "a", gpus: 8 }],
    );
    const { position, answer } = runCycle(ledger, NOW_MS, { ...OPTIONS, onlyFor: jobId("a") });
    expect([position, answer?.code]).toEqual([1, "WaitingForGpus"]);
  });

  test("leaves the cache as it was, so that the next one decides the same", () => {
    const ledger = ledgerWith(
      [["run", H0]],
      [
        { job: "a", gpus: 4 },
        { job: "b", gpus: 16 },
        { job: "infer", class: "inference", gpus: 8 },
      ],
    );
    const cache = openSchedulerCache(ledger, tawfq.queue, { isDismissing: false });
    const masks = [...cache.capacity.hosts.values()].map(({ leasedMask, reservedMask }) => [
      leasedMask,
      reservedMask,
    ]);
    const first = runCycleOn(cache, { snapshot: ledger, nowMs: NOW_MS }, OPTIONS);
    const after = [...cache.capacity.hosts.values()].map(({ leasedMask, reservedMask }) => [
      leasedMask,
      reservedMask,
    ]);
    expect(after).toEqual(masks);
    expect(cache.capacity.reserved.byJob.size).toBe(0);
    expect(runCycleOn(cache, { snapshot: ledger, nowMs: NOW_MS }, OPTIONS)).toEqual(first);
  });
});
