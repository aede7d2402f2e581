/** @file GPUs that wait idle for a head are lent: to whom, when, and how they come back. */
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../domain/fleet.ts";
import { jobId, leaseId, token } from "../../domain/ids.ts";
import type { HostGpus } from "../../domain/lease.ts";
import type { Plan, ReserveItem } from "../../domain/plan.ts";
import { ms } from "../../domain/units.ts";
import { checkLedger } from "../../scheduling/apply.ts";
import { decide as decideWith } from "../../scheduling/decide.ts";
import { packLedger, unpackLedger } from "../../scheduling/ledger-codec.ts";
import type { Applied, Ledger } from "../../scheduling/ledger.ts";
import { tawfqLending } from "../../scheduling/policy-sets.ts";
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
} from "./builders.ts";
import { yielded } from "./preempting.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const H0 = gpus(["c0/h0", 0xff]);
const H1 = gpus(["c0/h1", 0xff]);
const BOTH = [...H0, ...H1];
const NOW_MS = 100_000;
const BORROWER: RequestSpec = {
  job: "small",
  gpus: 8,
  submittedAtMs: NOW_MS,
  requestedAtMs: NOW_MS,
  checkpoint: { graceMs: ms(2_000) },
};
const HEAD: RequestSpec = { job: "head", gpus: 16, checkpoint: { graceMs: ms(2_000) } };

const decide = (ledger: Ledger, nowMs: number): Plan =>
  decideWith(ledger, nowMs, {}, { policies: tawfqLending });

/** Refused nothing, sound, and the same from JSON. */
function clean({ ledger, refusals }: Applied): Ledger {
  expect(refusals).toEqual([]);
  expect(checkLedger(ledger)).toEqual([]);
  expect(unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as never)).toEqual(ledger);
  return ledger;
}

const decided = (ledger: Ledger, nowMs: number): Ledger =>
  clean(applyPlan(ledger, decide(ledger, nowMs), nowMs));

const leaseOf = (ledger: Ledger, job: string) =>
  [...ledger.leases.values()].find((lease) => lease.jobId === jobId(job));

/** `run` has the first host, since time 0; `head` waits for both, and after it `small` for one. */
function waiting(spec: RequestSpec = {}, shape = SHAPE): Ledger {
  const held = leased(readyLedger(shape), { job: "run", gpus: 8, class: "inference" }, H0);
  const blocked = decided(inbox(held, [ask(HEAD)], 10).ledger, 10);
  expect(blocked.reservations?.get(jobId("head"))?.gpus).toEqual(BOTH);
  return inbox(blocked, [ask({ ...BORROWER, ...spec })], NOW_MS).ledger;
}

describe("what waits idle for a head", () => {
  test("is lent to training that can be stopped with a checkpoint, and stays set apart", () => {
    const ledger = decided(waiting(), NOW_MS);
    expect(leaseOf(ledger, "small")).toMatchObject({ gpus: H1, loan: { gpus: H1 } });
    expect(ledger.reservations?.get(jobId("head"))).toMatchObject({ gpus: BOTH, kind: "head" });
  });

  test.each<readonly [name: string, spec: RequestSpec]>([
    ["interactive sessions", { class: "interactive" }],
    ["inference", { class: "inference" }],
    [
      "who may not be preempted",
      { preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) } },
    ],
    [
      "who asks for a longer protected time than others",
      { preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(600_000) } },
    ],
    ["whose checkpoint may take long", { checkpoint: { graceMs: ms(61_000) } }],
  ])("is not lent to %s", (_name, spec) => {
    const { items } = decide(waiting(spec), NOW_MS);
    expect(items.filter(({ isLoan }) => isLoan)).toEqual([]);
  });

  test("is not lent to who writes no checkpoint", () => {
    const { checkpoint: _none, ...plain } = BORROWER;
    const held = leased(readyLedger(SHAPE), { job: "run", gpus: 8, class: "inference" }, H0);
    const blocked = decided(inbox(held, [ask(HEAD)], 10).ledger, 10);
    expect(decide(inbox(blocked, [ask(plain)], NOW_MS).ledger, NOW_MS).items).toEqual([]);
  });

  test("is not lent while the head is expected to start within seconds", () => {
    const soonMs = 15_000;
    const ledger = waiting();
    expect(decide(ledger, soonMs).items).toEqual([]);
    expect(decide(ledger, NOW_MS).items).toHaveLength(1);
  });

  test("is not lent where the fleet lets everything run to its end", () => {
    const shape = { ...SHAPE, policy: { ...DEFAULT_POLICY, isPreempting: false } };
    expect(decide(waiting({}, shape), NOW_MS).items).toEqual([]);
  });
});

describe("a loan", () => {
  const lent = decided(waiting(), NOW_MS);
  const END_MS = NOW_MS + 5_000;

  test("is called in as soon as the rest of the head's place is free, and the head starts there", () => {
    const free = inbox(lent, [end("run")], END_MS).ledger;
    const called = decided(free, END_MS);
    expect(leaseOf(called, "small")?.eviction).toMatchObject({
      forJob: "head",
      lostGpuSeconds: 16,
    });
    expect(called.reservations?.get(jobId("head"))).toMatchObject({
      gpus: BOTH,
      kind: "preemption",
      lostGpuSeconds: 16,
    });
    const started = decided(yielded(called, END_MS + 2_000), END_MS + 2_000);
    expect(leaseOf(started, "head")).toMatchObject({ gpus: BOTH, causedLossGpuSeconds: 16 });
    expect(started.requests.get(jobId("small"))).toMatchObject({ submittedAtMs: NOW_MS, seq: 2 });
  });

  test("is not called in while the head waits for another", () => {
    expect(decide(lent, END_MS).evict).toBeUndefined();
  });

  test("is over when the head leaves: the borrower is protected like any other", () => {
    const left = clean(inbox(lent, [end("head")], END_MS));
    expect(leaseOf(left, "small")).not.toHaveProperty("loan");
  });

  test("of whom somebody else evicts goes on for what is left of it", () => {
    const rest = decided(inbox(lent, [end("small")], END_MS).ledger, END_MS);
    expect(leaseOf(rest, "small")).toBeUndefined();
    expect(rest.reservations?.get(jobId("head"))?.gpus).toEqual(BOTH);
  });
});

describe("apply refuses", () => {
  const head = (kind: ReserveItem["kind"]): ReserveItem => ({
    jobId: jobId("head"),
    gpus: BOTH,
    kind,
  });
  const evictSmall = {
    kind: "evict",
    lease: leaseId(token(2)),
    forJob: jobId("head"),
    lostGpuSeconds: 1,
    reason: "test",
  } as const;
  const onH1 = (parts: readonly HostGpus[] = H1): Plan["items"][number] =>
    grantItem("small", parts);

  test.each<readonly [name: string, plan: Plan, code: string]>([
    ["a grant on a head's GPUs that is no loan", planOf([onH1()]), "GpuReserved"],
    [
      "a loan of what others are evicted for",
      { ...planOf([{ ...onH1(), isLoan: true }]), reserve: [head("preemption")] },
      "GpuReserved",
    ],
    [
      "the eviction of a borrower for a head that waits for another",
      { ...planOf([{ ...onH1(), isLoan: true }]), evict: [evictSmall] },
      "NotEvictable",
    ],
  ])("%s", (_name, plan, code) => {
    const { refusals, ledger } = applyPlan(waiting(), plan, NOW_MS);
    expect(refusals.map((refusal) => refusal.code)).toEqual([code]);
    expect(checkLedger(ledger)).toEqual([]);
  });

  test("a loan to who may not borrow", () => {
    const ledger = waiting({ class: "interactive" });
    const { refusals } = applyPlan(ledger, planOf([{ ...onH1(), isLoan: true }]), NOW_MS);
    expect(refusals.map(({ code }) => code)).toEqual(["GpuReserved"]);
  });

  test("the eviction of a borrower for a job that lent it nothing", () => {
    const lent = decided(waiting(), NOW_MS);
    const asked = inbox(lent, [ask({ job: "other", gpus: 8 })], NOW_MS).ledger;
    const plan: Plan = {
      ...planOf([]),
      reserve: [
        { jobId: jobId("head"), gpus: [], kind: "head" },
        { jobId: jobId("other"), gpus: H0, kind: "preemption" },
      ],
      evict: [{ ...evictSmall, forJob: jobId("other") }],
    };
    const { refusals } = applyPlan(asked, plan, NOW_MS);
    expect(refusals.map(({ code }) => code)).toEqual(["NotEvictable"]);
  });
});
