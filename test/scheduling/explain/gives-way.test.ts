/** @file Why no job gives way: each lease in the way counts once, under the rule that keeps it, and where all may be taken the fleet takes them. */

import { expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import { jobId, tenantId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { whoKeeps, type Kept } from "../../../scheduling/explain/gives-way.ts";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { fleetShape, gpus, type RequestSpec } from "../builders.ts";
import { busyLedger, NOW_MS, type Held } from "../preemption/victims.ts";

const SHAPE = fleetShape([{ hosts: [{}] }]);
const ALL = gpus(["c0/h0", 0xff]);
const checkpoint = { graceMs: ms(1_000) };
const rule = (minRuntimeMs: number, isPreemptible = true) => ({
  preemption: { isPreemptible, mayShrink: false, minRuntimeMs: ms(minRuntimeMs) },
});

const keptOf = (held: readonly Held[], waits: RequestSpec, shape = SHAPE) =>
  whoKeeps(busyLedger(shape, held, [{ job: "w", ...waits }]), jobId("w"), NOW_MS);

test.each<[string, RequestSpec, RequestSpec, object]>([
  ["not-preemptible", { class: "inference" }, {}, {}],
  ["no-checkpoint", {}, {}, {}],
  [
    "higher-priority",
    { checkpoint, priority: 3 },
    { priority: 2 },
    { priority: 2, leastPriority: 3 },
  ],
  ["served-less", { checkpoint }, { seq: 9 }, { level: 7, waitingGpus: 0, heldGpus: 8 }],
  [
    "own-due",
    { tenant: "u" },
    { gpus: 8 },
    { needGpus: 8, heldGpus: 0, dueGpus: 4, tenantWeight: 1 },
  ],
  ["no-place", { checkpoint }, { gpus: 16 }, { needGpus: 16, freeGpus: 0, togetherGpus: 8 }],
])("%s", (want, runs, waits, numbers) => {
  const found = keptOf([["r", ALL, { gpus: 8, ...runs }]], { gpus: 4, ...waits });
  expect(found).toMatchObject([{ rule: want, leases: 1, gpus: 8, numbers }]);
});

test("what time alone changes has a time: a protection, a level of service, an hour's budget, and a time limit for any rule", () => {
  const firstOf = (kept: readonly Kept[]): Kept | undefined => kept[0];
  const guarded = keptOf([["r", ALL, rule(NOW_MS + 5_000)]], { gpus: 4 });
  expect(firstOf(guarded)).toMatchObject({ rule: "protected", untilMs: NOW_MS + 5_000 });
  expect(firstOf(guarded)).not.toHaveProperty("endsByMs");

  // Level 1 lasts for two GPU-hours, which eight GPUs use up in fifteen minutes.
  const served = keptOf([["r", ALL, { checkpoint }]], { gpus: 4, seq: 2 });
  expect(firstOf(served)).toMatchObject({
    rule: "served-less",
    numbers: { level: 1, waitingGpus: 4, heldGpus: 8 },
    untilMs: 900_000,
  });
  // It lasts one and a half times as long while twelve wait on it, and eight are held.
  const waits = [
    { job: "w", gpus: 4, seq: 2 },
    { job: "v", gpus: 8, seq: 1 },
  ];
  const crowded = whoKeeps(
    busyLedger(SHAPE, [["r", ALL, { checkpoint }]], waits),
    jobId("w"),
    NOW_MS,
  );
  expect(firstOf(crowded)).toMatchObject({
    numbers: { level: 1, waitingGpus: 12, heldGpus: 8 },
    untilMs: 1_350_000,
  });

  const poor = { ...SHAPE, policy: { ...DEFAULT_POLICY, preemptionBudgetGpuSeconds: 20 } };
  const asked = [{ job: "w", gpus: 4 }];
  const [tenant, atMs] = [tenantId("t"), 400_000];
  const spent: Ledger = {
    ...busyLedger(poor, [["r", ALL, { checkpoint }]], asked),
    evictions: [{ tenant, atMs, lostGpuSeconds: 15 }],
  };
  expect(firstOf(whoKeeps(spent, jobId("w"), NOW_MS))).toMatchObject({
    rule: "budget",
    numbers: { spentGpuSeconds: 15, budgetGpuSeconds: 20 },
    untilMs: atMs + 3_600_000,
  });

  const limited = { class: "inference", timeLimitMs: ms(3_000_000) } as const;
  const [kept] = keptOf([["r", ALL, limited]], { gpus: 4 });
  expect(kept).toMatchObject({ rule: "not-preemptible", endsByMs: 3_000_000 });
});

test("a class that holds its due by weight takes none of another class", () => {
  const shape = fleetShape([{ hosts: [{}, {}] }]);
  const kept = keptOf(
    [
      ["a", gpus(["c0/h0", 0xff]), { class: "interactive", ...rule(0), tenant: "u", gpus: 8 }],
      ["b", gpus(["c0/h1", 0xff]), { tenant: "u", gpus: 8, ...rule(NOW_MS + 1) }],
    ],
    { gpus: 4, tenant: "v" },
    shape,
  );
  expect(kept).toMatchObject([
    { rule: "protected", gpus: 8 },
    {
      rule: "class-due",
      gpus: 8,
      numbers: { needGpus: 4, classHeldGpus: 8, classDueGpus: 8, classWeight: 1 },
    },
  ]);
});

test("where some give way already, the others are kept by that", () => {
  const shape = fleetShape([{ hosts: [{}, {}] }]);
  const held: Held[] = [
    ["a", gpus(["c0/h0", 0xff]), { tenant: "u", gpus: 8, ...rule(0) }],
    ["b", gpus(["c0/h1", 0xff]), { tenant: "u", gpus: 8, ...rule(0) }],
  ];
  const ledger = busyLedger(shape, held, [{ job: "w", gpus: 8 }]);
  const plan = decide(ledger, NOW_MS);
  const after = apply(ledger, { kind: "plan", plan, nowMs: NOW_MS }).ledger;
  expect(whoKeeps(after, jobId("w"), NOW_MS)).toMatchObject([
    { rule: "stops-already", leases: 1, gpus: 8 },
    { rule: "room-is-coming", leases: 1, gpus: 8 },
  ]);
});

test("a tenant that holds no more than its due keeps its jobs", () => {
  const kept = keptOf([["a", gpus(["c0/h0", 0x0f]), { tenant: "u", gpus: 4 }]], { gpus: 4 });
  expect(kept).toMatchObject([
    { rule: "their-due", gpus: 4, numbers: { heldGpus: 4, dueGpus: 4 } },
  ]);
});

test("the budget keeps what the tenant cannot pay", () => {
  const poor = { ...SHAPE, policy: { ...DEFAULT_POLICY, preemptionBudgetGpuSeconds: 0 } };
  expect(keptOf([["r", ALL, { checkpoint }]], { gpus: 4 }, poor)).toMatchObject([
    { rule: "budget", numbers: { spentGpuSeconds: 0, budgetGpuSeconds: 0 } },
  ]);
});

test("what a fleet's limits protect is told with their figures", () => {
  const policy = { ...DEFAULT_POLICY, maxPreemptions: 3, coolDownMs: ms(1_800_000) };
  const limited = { ...SHAPE, policy };
  expect(keptOf([["r", ALL, rule(1_800_000)]], { gpus: 4 }, limited)).toMatchObject([
    { rule: "protected", numbers: { longestSeconds: 1_800, coolDownSeconds: 1_800 } },
  ]);
  expect(keptOf([["r", ALL, rule(0, false)]], { gpus: 4 }, limited)).toMatchObject([
    { rule: "not-preemptible", numbers: { maxPreemptions: 3 } },
  ]);
});

test("what the fleet evicts for a job is kept by no rule", () => {
  const ledger = busyLedger(SHAPE, [["r", ALL, { tenant: "u" }]], [{ job: "w", gpus: 4 }]);
  expect(decide(ledger, NOW_MS).evict).toMatchObject([{ lease: "lease-1", forJob: "w" }]);
  expect(whoKeeps(ledger, jobId("w"), NOW_MS)).toMatchObject([{ rule: "no-place", leases: 1 }]);
});

test("a fleet that never preempts says so, and an idle one names no job", () => {
  const never = { ...SHAPE, policy: { ...DEFAULT_POLICY, isPreempting: false } };
  expect(keptOf([["r", ALL]], { gpus: 4 }, never)).toMatchObject([
    { rule: "fleet-never-preempts", gpus: 8 },
  ]);
  expect(keptOf([], { gpus: 4 })).toEqual([]);
});
