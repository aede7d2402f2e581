/** @file Jobs that started smaller: which of them restart at full size, and when none may. */
import { describe, expect, test } from "vitest";
import type { HostGpus } from "../../../domain/lease/lease.ts";
import { ms } from "../../../domain/values/units.ts";
import { plainPlace } from "../../../scheduling/cycle/policy-sets.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { MIN_RUN_MS, planGrowth } from "../../../scheduling/preemption/scale-up.ts";
import {
  applyPlan,
  ask,
  fleetShape,
  gpus,
  inbox,
  leased,
  planOf,
  readyLedger,
  type RequestSpec,
  type TenantSpec,
} from "../builders.ts";
import { viewOf } from "../preempting.ts";
import { reserved } from "../reservation/reservations.ts";
import { drained, withReservations } from "../views.ts";

const HALF = gpus(["c0/h0", 0x0f]);
/** It accepts 4 GPUs at once, and would go on with 8. */
const GROWING: RequestSpec = {
  job: "small",
  gpus: 8,
  gang: { min: 2, timeoutMs: ms(0), mayGrow: true },
  checkpoint: { graceMs: ms(2_000) },
  preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(0) },
};
const ready = (tenants: readonly TenantSpec[] = []) =>
  readyLedger(fleetShape([{ hosts: [{}, {}] }], tenants));

/** Its agent has the job: the lease is held. */
const running = (ledger: Ledger): Ledger => ({
  ...ledger,
  leases: new Map(
    [...ledger.leases].map(([id, lease]) => [id, { ...lease, state: "held" as const }]),
  ),
});

const small = (change: RequestSpec = {}, parts = HALF, tenants: readonly TenantSpec[] = []) =>
  running(leased(ready(tenants), { ...GROWING, ...change }, parts));

const grown = (ledger: Ledger, nowMs = MIN_RUN_MS) => {
  const { view, preemption } = viewOf(ledger, nowMs);
  const masks = () => [...view.capacity.hosts.values()].map(({ leasedMask }) => leasedMask);
  const before = masks();
  const plan = planGrowth(view, { preemption, place: plainPlace });
  expect(masks()).toEqual(before);
  expect([...preemption.taken]).toEqual(plan.evict.map(({ lease }) => lease));
  return plan;
};
const placesOf = (ledger: Ledger, nowMs?: number): readonly (readonly HostGpus[])[] =>
  grown(ledger, nowMs).reserve.map((each) => each.gpus);

describe("a job that started smaller", () => {
  test("stops to go on with its whole gang, which is reserved for it meanwhile", () => {
    const ledger = small();
    const [lease] = ledger.leases.values();
    const plan = grown(ledger);
    expect(plan.reserve).toEqual([{ jobId: "small", gpus: gpus(["c0/h0", 0xff]), kind: "keep" }]);
    expect(plan.evict).toMatchObject([
      { kind: "evict", lease: lease?.id, forJob: "small", lostGpuSeconds: 4 * 2 },
    ]);
    const { evict, reserve } = plan;
    const { refusals } = applyPlan(ledger, { ...planOf([]), evict, reserve }, MIN_RUN_MS);
    expect(refusals).toEqual([]);
  });

  test.each<{ name: string; ledger: Ledger; nowMs?: number }>([
    { name: "that did not ask for it", ledger: small({ gang: { min: 2, timeoutMs: ms(0) } }) },
    {
      name: "that has its whole gang",
      ledger: small({ gpus: 4, gang: { min: 2, mayGrow: true } }),
    },
    { name: "that has just started", ledger: small(), nowMs: MIN_RUN_MS - 1 },
    {
      name: "in its protected time",
      ledger: small({
        preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(MIN_RUN_MS + 1) },
      }),
    },
    {
      name: "whose place for the whole gang is not free",
      ledger: running(
        leased(
          leased(small(), { job: "x", gpus: 1 }, gpus(["c0/h0", 0x80])),
          { job: "y", gpus: 8 },
          gpus(["c0/h1", 0xff]),
        ),
      ),
    },
    {
      name: "whose place is reserved for another job",
      ledger: withReservations(
        small(),
        reserved("x", gpus(["c0/h0", 0x80])),
        reserved("y", gpus(["c0/h1", 0xff])),
      ),
    },
    {
      name: "whose quota has no room for the whole gang",
      ledger: small({}, HALF, [{ id: "t", quota: { H100: 7 } }]),
    },
    {
      name: "while a request within its due waits",
      ledger: inbox(small(), [ask({ job: "next", tenant: "u", gpus: 9 })]).ledger,
    },
  ])("stays as it is: one $name", ({ ledger, nowMs }) => {
    expect(grown(ledger, nowMs)).toMatchObject({ evict: [], reserve: [] });
  });

  test("grows on another host where its own has no room", () => {
    const ledger = leased(small(), { job: "x", gpus: 1 }, gpus(["c0/h0", 0x80]));
    expect(placesOf(running(ledger))).toEqual([gpus(["c0/h1", 0xff])]);
    expect(placesOf(drained(running(ledger), "c0/h1"))).toEqual([]);
  });

  test("does not wait for a request that no fleet change but a larger one would help", () => {
    const ledger = inbox(small(), [ask({ job: "next", tenant: "u", gpus: 99 })]).ledger;
    const reason = {
      code: "NoMatchingFlavor",
      message: "",
      numbers: {},
      holders: [],
      wakeOn: [],
    } as const;
    const [request] = ledger.requests.keys();
    if (request === undefined) throw new Error("a job waits");
    expect(placesOf({ ...ledger, reasons: new Map([[request, reason]]) })).toHaveLength(1);
  });
});

test("one job grows at a time, the oldest first", () => {
  const second = { ...GROWING, job: "second" };
  const ledger = running(leased(small(), second, gpus(["c0/h1", 0x0f])));
  expect(grown(ledger).reserve.map(({ jobId }) => jobId)).toEqual(["small"]);
});
