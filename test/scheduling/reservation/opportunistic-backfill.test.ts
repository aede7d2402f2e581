/** @file Opportunistic backfill of idle reserved GPUs: by which jobs, when, and how the GPUs come back. */
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import { jobId, leaseId, token } from "../../../domain/values/ids.ts";
import type { HostGpus } from "../../../domain/lease/lease.ts";
import type { Plan, ReserveItem } from "../../../domain/lease/plan.ts";
import { ms } from "../../../domain/values/units.ts";
import { checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { decide as decideWith } from "../../../scheduling/cycle/decide.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Applied, Ledger } from "../../../scheduling/ledger/ledger.ts";
import { tawfq } from "../../../scheduling/cycle/policy-sets.ts";
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
} from "../builders.ts";
import { yielded } from "../preempting.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const H0 = gpus(["c0/h0", 0xff]);
const H1 = gpus(["c0/h1", 0xff]);
const BOTH = [...H0, ...H1];
const NOW_MS = 100_000;
const SMALL: RequestSpec = {
  job: "small",
  gpus: 8,
  submittedAtMs: NOW_MS,
  requestedAtMs: NOW_MS,
  checkpoint: { graceMs: ms(2_000) },
};
const BIG: RequestSpec = { job: "backfill", gpus: 16, checkpoint: { graceMs: ms(2_000) } };

/** A reservation is made at once, although nobody states a limit. */
const decide = (ledger: Ledger, nowMs: number): Plan =>
  decideWith(ledger, nowMs, {}, { policies: { ...tawfq, backfill: "persistent" } });

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

/** `run` has the first host since time 0; both are reserved for `backfill`, and after it `small` waits for one. */
function waiting(spec: RequestSpec = {}, shape = SHAPE): Ledger {
  const held = leased(readyLedger(shape), { job: "run", gpus: 8, class: "inference" }, H0);
  const blocked = decided(inbox(held, [ask(BIG)], 10).ledger, 10);
  expect(blocked.reservations?.get(jobId("backfill"))?.gpus).toEqual(BOTH);
  return inbox(blocked, [ask({ ...SMALL, ...spec })], NOW_MS).ledger;
}

describe("an idle reserved host", () => {
  test("serves training that can be stopped with a checkpoint, and stays reserved", () => {
    const ledger = decided(waiting(), NOW_MS);
    expect(leaseOf(ledger, "small")).toMatchObject({ gpus: H1, opportunistic: { gpus: H1 } });
    expect(ledger.reservations?.get(jobId("backfill"))).toMatchObject({
      gpus: BOTH,
      kind: "backfill",
    });
  });

  test.each<readonly [name: string, spec: RequestSpec]>([
    ["interactive sessions", { class: "interactive" }],
    ["inference", { class: "inference" }],
    [
      "a job that may not be preempted",
      { preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) } },
    ],
    [
      "a job that asks for a longer protected time than others",
      { preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(600_000) } },
    ],
    ["a job whose checkpoint may take long", { checkpoint: { graceMs: ms(61_000) } }],
  ])("does not serve %s", (_name, spec) => {
    const { items } = decide(waiting(spec), NOW_MS);
    expect(items.filter(({ isOpportunistic }) => isOpportunistic)).toEqual([]);
  });

  test("does not serve a job that writes no checkpoint", () => {
    const { checkpoint: _none, ...plain } = SMALL;
    const held = leased(readyLedger(SHAPE), { job: "run", gpus: 8, class: "inference" }, H0);
    const blocked = decided(inbox(held, [ask(BIG)], 10).ledger, 10);
    expect(decide(inbox(blocked, [ask(plain)], NOW_MS).ledger, NOW_MS).items).toEqual([]);
  });

  test("does not serve others while its job is expected to start within seconds", () => {
    const soonMs = 15_000;
    const ledger = waiting();
    expect(decide(ledger, soonMs).items).toEqual([]);
    expect(decide(ledger, NOW_MS).items).toHaveLength(1);
  });

  test("does not serve others where the fleet never preempts", () => {
    const shape = { ...SHAPE, policy: { ...DEFAULT_POLICY, isPreempting: false } };
    expect(decide(waiting({}, shape), NOW_MS).items).toEqual([]);
  });
});

describe("an opportunistic lease", () => {
  const used = decided(waiting(), NOW_MS);
  const END_MS = NOW_MS + 5_000;

  test("is evicted as soon as the rest of the reserved place is free, and its job starts there", () => {
    const free = inbox(used, [end("run")], END_MS).ledger;
    const called = decided(free, END_MS);
    expect(leaseOf(called, "small")?.eviction).toMatchObject({
      forJob: "backfill",
      lostGpuSeconds: 16,
    });
    expect(called.reservations?.get(jobId("backfill"))).toMatchObject({
      gpus: BOTH,
      kind: "preemption",
      lostGpuSeconds: 16,
    });
    const started = decided(yielded(called, END_MS + 2_000), END_MS + 2_000);
    expect(leaseOf(started, "backfill")).toMatchObject({ gpus: BOTH, causedLossGpuSeconds: 16 });
    expect(started.requests.get(jobId("small"))).toMatchObject({ submittedAtMs: NOW_MS, seq: 2 });
  });

  test("is not evicted while the job with the reservation waits for another lease", () => {
    expect(decide(used, END_MS).evict).toBeUndefined();
  });

  test("is one like any other when the reservation ends", () => {
    const left = clean(inbox(used, [end("backfill")], END_MS));
    expect(leaseOf(left, "small")).not.toHaveProperty("opportunistic");
  });

  test("leaves the reservation whole when it ends", () => {
    const rest = decided(inbox(used, [end("small")], END_MS).ledger, END_MS);
    expect(leaseOf(rest, "small")).toBeUndefined();
    expect(rest.reservations?.get(jobId("backfill"))?.gpus).toEqual(BOTH);
  });
});

describe("apply refuses", () => {
  const reservation = (kind: ReserveItem["kind"]): ReserveItem => ({
    jobId: jobId("backfill"),
    gpus: BOTH,
    kind,
  });
  const evictSmall = {
    kind: "evict",
    lease: leaseId(token(2)),
    forJob: jobId("backfill"),
    lostGpuSeconds: 1,
    reason: "test",
  } as const;
  const onH1 = (parts: readonly HostGpus[] = H1): Plan["items"][number] =>
    grantItem("small", parts);

  test.each<readonly [name: string, plan: Plan, code: string]>([
    ["a grant on reserved GPUs that is not opportunistic", planOf([onH1()]), "GpuReserved"],
    [
      "an opportunistic grant of GPUs that evictions free for another job",
      { ...planOf([{ ...onH1(), isOpportunistic: true }]), reserve: [reservation("preemption")] },
      "GpuReserved",
    ],
    [
      "an eviction for a job that waits for another lease",
      { ...planOf([{ ...onH1(), isOpportunistic: true }]), evict: [evictSmall] },
      "NotEvictable",
    ],
  ])("%s", (_name, plan, code) => {
    const { refusals, ledger } = applyPlan(waiting(), plan, NOW_MS);
    expect(refusals.map((refusal) => refusal.code)).toEqual([code]);
    expect(checkLedger(ledger)).toEqual([]);
  });

  test("an opportunistic grant to a job that may not have one", () => {
    const ledger = waiting({ class: "interactive" });
    const { refusals } = applyPlan(ledger, planOf([{ ...onH1(), isOpportunistic: true }]), NOW_MS);
    expect(refusals.map(({ code }) => code)).toEqual(["GpuReserved"]);
  });

  test("an eviction for a job without a reservation there", () => {
    const used = decided(waiting(), NOW_MS);
    const asked = inbox(used, [ask({ job: "other", gpus: 8 })], NOW_MS).ledger;
    const plan: Plan = {
      ...planOf([]),
      reserve: [
        { jobId: jobId("backfill"), gpus: [], kind: "backfill" },
        { jobId: jobId("other"), gpus: H0, kind: "preemption" },
      ],
      evict: [{ ...evictSmall, forJob: jobId("other") }],
    };
    const { refusals } = applyPlan(asked, plan, NOW_MS);
    expect(refusals.map(({ code }) => code)).toEqual(["NotEvictable"]);
  });
});
