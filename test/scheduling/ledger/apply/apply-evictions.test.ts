/** @file Reservations and evictions as the ledger keeps them: what is refused, what ends by itself, what is withdrawn. */
import { describe, expect, test } from "vitest";
import { jobId, leaseId, token } from "../../../../domain/values/ids.ts";
import type { HostGpus } from "../../../../domain/lease/lease.ts";
import type { EvictItem, Plan, ReserveItem } from "../../../../domain/lease/plan.ts";
import { ms } from "../../../../domain/values/units.ts";
import { apply, checkLedger, nextReturnAtMs } from "../../../../scheduling/ledger/apply/apply.ts";
import { REVOKE_AFTER_MS } from "../../../../scheduling/ledger/apply/apply-evictions.ts";
import { RETURN_MS } from "../../../../scheduling/ledger/apply/kept-hosts.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import type { Applied, Ledger } from "../../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gpus,
  grantItem,
  inbox,
  leased,
  planOf,
  readyLedger,
  type RequestSpec,
} from "../../builders.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const READY = readyLedger(SHAPE);
const H0 = gpus(["c0/h0", 0xff]);
const H1 = gpus(["c0/h1", 0xff]);
/** Training is protected for its first minute. */
const LATER_MS = 60_000;

const reserve = (
  job: string,
  parts: readonly HostGpus[],
  spec: Partial<ReserveItem> = {},
): ReserveItem => ({ jobId: jobId(job), gpus: parts, kind: "preemption", ...spec });
const evict = (number: number, forJob: string, spec: Partial<EvictItem> = {}): EvictItem => ({
  kind: "evict",
  lease: leaseId(token(number)),
  forJob: jobId(forJob),
  lostGpuSeconds: 80,
  reason: "test",
  ...spec,
});
const preempting = (
  parts: readonly ReserveItem[],
  items: readonly EvictItem[],
  grants: Plan["items"] = [],
): Plan => ({ ...planOf(grants), reserve: parts, evict: items });

/** `run` holds the first host by lease-1; `wait` waits for 8 GPUs. */
function view(victim: RequestSpec = {}, waiting: RequestSpec = {}): Ledger {
  const held = leased(READY, { job: "run", gpus: 8, ...victim }, H0);
  const sent = apply(held, {
    kind: "delivered",
    accepted: [leaseId(token(1))],
    gone: [],
    nowMs: 0,
  }).ledger;
  return inbox(sent, [ask({ job: "wait", gpus: 8, class: "inference", ...waiting })]).ledger;
}

const evicted = (nowMs = LATER_MS, victim: RequestSpec = {}): Ledger =>
  clean(applyPlan(view(victim), preempting([reserve("wait", H0)], [evict(1, "wait")]), nowMs));

function clean({ ledger, refusals }: Applied): Ledger {
  expect(refusals).toEqual([]);
  expect(checkLedger(ledger)).toEqual([]);
  expect(unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as never)).toEqual(ledger);
  return ledger;
}

const lease = (ledger: Ledger, number = 1) => ledger.leases.get(leaseId(token(number)));
const sent = (ledger: Ledger, nowMs: number): Ledger =>
  clean(apply(ledger, { kind: "evictions-sent", sent: [leaseId(token(1))], gone: [], nowMs }));

describe("an eviction", () => {
  const PLAN = preempting([reserve("wait", H0)], [evict(1, "wait")]);
  const cases: readonly {
    readonly name: string;
    readonly victim?: RequestSpec;
    readonly plan?: Plan;
    readonly nowMs?: number;
    readonly wantRefused?: true;
  }[] = [
    { name: "of a lease that is old enough, for a job that has its GPUs reserved" },
    { name: "of a lease that is protected still", nowMs: LATER_MS - 1, wantRefused: true },
    {
      name: "of inference, which is not preemptible",
      victim: { class: "inference" },
      wantRefused: true,
    },
    {
      name: "of a job that does not allow it",
      victim: { preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) } },
      wantRefused: true,
    },
    {
      name: "at once, where the job allows it",
      victim: { preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(0) } },
      nowMs: 0,
    },
    { name: "without a reservation", plan: preempting([], [evict(1, "wait")]), wantRefused: true },
    {
      name: "for GPUs that the lease has not",
      plan: preempting([reserve("wait", H1)], [evict(1, "wait")]),
      wantRefused: true,
    },
    {
      name: "for a job that does not wait",
      plan: preempting([reserve("wait", H0)], [evict(1, "ghost")]),
      wantRefused: true,
    },
    {
      name: "of a lease that is not there",
      plan: preempting([reserve("wait", H0)], [evict(9, "wait")]),
      wantRefused: true,
    },
    {
      name: "twice in one plan",
      plan: preempting([reserve("wait", H0)], [evict(1, "wait"), evict(1, "wait")]),
      wantRefused: true,
    },
    {
      name: "that loses more than the hour's budget",
      plan: preempting([reserve("wait", H0)], [evict(1, "wait", { lostGpuSeconds: 36_001 })]),
      wantRefused: true,
    },
    {
      name: "that loses less than nothing",
      plan: preempting([reserve("wait", H0)], [evict(1, "wait", { lostGpuSeconds: -1 })]),
      wantRefused: true,
    },
    {
      name: "of a part, of a job that does not shrink",
      plan: preempting(
        [reserve("wait", gpus(["c0/h0", 0xf0]))],
        [evict(1, "wait", { keep: gpus(["c0/h0", 0x0f]) })],
      ),
      wantRefused: true,
    },
    {
      name: "for its own job, which does not grow",
      plan: preempting([reserve("run", H1, { kind: "keep" })], [evict(1, "run")]),
      wantRefused: true,
    },
  ];
  test.each(cases)("$name", ({ victim, plan = PLAN, nowMs = LATER_MS, wantRefused }) => {
    const { ledger, refusals } = applyPlan(view(victim), plan, nowMs);
    expect(refusals.map(({ code }) => code)).toEqual(wantRefused === true ? ["NotEvictable"] : []);
    expect(checkLedger(ledger)).toEqual([]);
  });

  test("is written on the lease, with its loss in the tenant's account", () => {
    const ledger = evicted();
    expect(lease(ledger)?.eviction).toEqual({ forJob: "wait", atMs: LATER_MS, lostGpuSeconds: 80 });
    expect(ledger.evictions).toEqual([{ atMs: LATER_MS, tenant: "t", lostGpuSeconds: 80 }]);
  });

  test("is withdrawn when its beneficiary leaves, unless the order was sent", () => {
    const gone = clean(inbox(evicted(), [end("wait")], LATER_MS));
    expect(gone.reservations).toBeUndefined();
    expect(gone.evictions).toBeUndefined();
    expect(lease(gone)?.eviction).toBeUndefined();
    const late = clean(inbox(sent(evicted(), LATER_MS), [end("wait")], LATER_MS));
    expect(late.reservations).toBeUndefined();
    expect(lease(late)?.eviction).toMatchObject({ isSent: true });
  });

  test("is withdrawn when its beneficiary starts elsewhere", () => {
    const ledger = clean(applyPlan(evicted(), planOf([grantItem("wait", H1)]), LATER_MS));
    expect(lease(ledger)?.eviction).toBeUndefined();
    expect(lease(ledger, 2)?.causedLossGpuSeconds).toBe(80);
  });

  test("ends with the beneficiary's grant, which says what it has cost others", () => {
    const free = clean(inbox(sent(evicted(), LATER_MS), [end("run")], LATER_MS));
    const again = clean(inbox(free, [ask({ job: "run", seq: 2, gpus: 8 })], LATER_MS));
    const stolen = applyPlan(again, planOf([grantItem("run", H0, { seq: 2 })]), LATER_MS);
    expect(stolen.refusals.map(({ code }) => code)).toEqual(["GpuReserved"]);
    const granted = clean(applyPlan(again, planOf([grantItem("wait", H0)]), LATER_MS));
    expect(granted.reservations).toBeUndefined();
    expect(lease(granted, 2)).toMatchObject({ jobId: "wait", causedLossGpuSeconds: 80 });
    expect(granted.evictions).toHaveLength(1);
  });

  test("that is not followed is revoked by the clock, after the grace that its checkpoint has", () => {
    const ledger = sent(evicted(LATER_MS, { checkpoint: { graceMs: ms(5_000) } }), 70_000);
    const dueAtMs = 70_000 + 5_000 + REVOKE_AFTER_MS;
    expect(nextReturnAtMs(ledger)).toBe(dueAtMs);
    const early = apply(ledger, { kind: "clock", nowMs: dueAtMs - 1 }).ledger;
    expect(lease(early)?.state).toBe("held");
    const late = clean(apply(ledger, { kind: "clock", nowMs: dueAtMs }));
    expect(lease(late)).toMatchObject({ state: "vacating", vacatingHosts: ["c0/h0"] });
  });

  test("whose job is closed releases the lease, when its hosts have confirmed", () => {
    const { ledger } = apply(evicted(), {
      kind: "evictions-sent",
      sent: [],
      gone: [leaseId(token(1))],
      nowMs: LATER_MS,
    });
    expect(lease(ledger)?.state).toBe("vacating");
    const free = clean(
      inbox(ledger, [{ kind: "vacated", lease: "lease-1", hosts: ["c0/h0"] }], LATER_MS),
    );
    expect(free.leases.size).toBe(0);
  });
});

describe("what a shrunk job keeps", () => {
  const SHRINKS: RequestSpec = {
    gang: { gpus: 8, min: 4 },
    preemption: { isPreemptible: true, mayShrink: true, minRuntimeMs: ms(0) },
  };
  const LOW = gpus(["c0/h0", 0x0f]);
  const HIGH = gpus(["c0/h0", 0xf0]);
  const shrunk = (): Ledger =>
    clean(
      applyPlan(
        view(SHRINKS, { gpus: 4 }),
        preempting([reserve("wait", HIGH)], [evict(1, "wait", { keep: LOW })]),
        LATER_MS,
      ),
    );

  test("is reserved for it, and granted although its gang timeout is not over", () => {
    const ended = clean(inbox(sent(shrunk(), LATER_MS), [end("run")], 65_000));
    const again = clean(
      inbox(ended, [ask({ job: "run", ...SHRINKS, seq: 2, requestedAtMs: 65_000 })], 65_000),
    );
    const plan = planOf([grantItem("wait", HIGH), grantItem("run", LOW, { seq: 2 })]);
    const both = clean(applyPlan(again, plan, 65_000));
    expect([...both.leases.values()].map(({ jobId: job, gpus: parts }) => [job, parts])).toEqual([
      ["wait", HIGH],
      ["run", LOW],
    ]);
    expect(both.reservations).toBeUndefined();
  });

  test("no other smaller size is acceptable before the timeout", () => {
    const ended = inbox(sent(shrunk(), LATER_MS), [end("run")], 65_000).ledger;
    const again = inbox(ended, [ask({ job: "run", ...SHRINKS, seq: 2, requestedAtMs: 65_000 })]);
    const other = applyPlan(
      again.ledger,
      planOf([grantItem("run", gpus(["c0/h1", 0x0f]), { seq: 2 })]),
      65_000,
    );
    expect(other.refusals.map(({ code }) => code)).toEqual(["GangSizeWrong"]);
  });

  test("waits a while for a job that does not ask again, and then for nobody", () => {
    const ended = clean(inbox(sent(shrunk(), LATER_MS), [end("run")], 65_000));
    expect(nextReturnAtMs(ended)).toBe(65_000 + RETURN_MS);
    const tick = (nowMs: number): Ledger => clean(apply(ended, { kind: "clock", nowMs }));
    expect([...(tick(64_999 + RETURN_MS).reservations?.keys() ?? [])]).toEqual(["wait", "run"]);
    expect([...(tick(65_000 + RETURN_MS).reservations?.keys() ?? [])]).toEqual(["wait"]);
  });

  test("goes with the eviction when that is withdrawn", () => {
    const gone = clean(inbox(shrunk(), [end("wait")], LATER_MS));
    expect(gone.reservations).toBeUndefined();
    expect(lease(gone)?.eviction).toBeUndefined();
  });

  test.each([
    { name: "below the gang's minimum", keep: gpus(["c0/h0", 0x07]) },
    { name: "what it has not", keep: gpus(["c0/h1", 0x0f]) },
    { name: "all that it has", keep: H0 },
    { name: "what is reserved for the other job", keep: HIGH },
  ])("is never $name", ({ keep }) => {
    const plan = preempting([reserve("wait", HIGH)], [evict(1, "wait", { keep })]);
    const { refusals } = applyPlan(view(SHRINKS, { gpus: 4 }), plan, LATER_MS);
    expect(refusals.map(({ code }) => code)).toEqual(["NotEvictable"]);
  });
});

describe("a job that grows", () => {
  const GROWS: RequestSpec = { gang: { gpus: 16, min: 8, timeoutMs: ms(0), mayGrow: true } };

  test("gives up its lease for a reservation of its whole gang, at nobody's cost", () => {
    const all = [...H0, ...H1];
    const held = clean(inbox(view(GROWS), [end("wait")]));
    const plan = preempting([reserve("run", all, { kind: "keep" })], [evict(1, "run")]);
    const growing = clean(applyPlan(held, plan, LATER_MS));
    expect(growing.evictions).toBeUndefined();
    const ended = clean(inbox(sent(growing, LATER_MS), [end("run")], 65_000));
    const again = clean(inbox(ended, [ask({ job: "run", ...GROWS, seq: 2 })], 65_000));
    const grown = clean(applyPlan(again, planOf([grantItem("run", all, { seq: 2 })]), 65_000));
    expect(lease(grown, 2)).toMatchObject({ gpus: all });
    expect(grown.reservations).toBeUndefined();
  });
});

describe("checkpoints", () => {
  test("are noted with their time, which only grows and is not of the future", () => {
    const mark = (atMs: number) => ({ kind: "checkpointed", marks: [{ lease: "lease-1", atMs }] });
    const noted = clean(inbox(view(), [mark(5_000), mark(4_000)], 6_000));
    expect(lease(noted)?.checkpointedAtMs).toBe(5_000);
    expect(lease(clean(inbox(noted, [mark(9_000)], 7_000)))?.checkpointedAtMs).toBe(7_000);
    expect(inbox(noted, [mark(5_000)], 8_000).ledger).toBe(noted);
  });
});
