/** @file Why no job gives way: each lease in the way counts once, under the rule that keeps it, and where all may be taken the fleet takes them. */

import { expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { whoKeeps } from "../../../scheduling/explain/gives-way.ts";
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
  ["protected", rule(NOW_MS + 5_000), {}, { untilMs: NOW_MS + 5_000 }],
  ["no-checkpoint", {}, {}, {}],
  ["higher-priority", { checkpoint, priority: 3 }, { priority: 2 }, { priority: 2 }],
  ["served-less", { checkpoint }, { seq: 9 }, {}],
  ["own-due", { tenant: "u" }, { gpus: 8 }, { needGpus: 8, heldGpus: 0, dueGpus: 4 }],
  ["no-place", { checkpoint }, { gpus: 16 }, { needGpus: 16 }],
])("%s", (want, runs, waits, numbers) => {
  const found = keptOf([["r", ALL, { gpus: 8, ...runs }]], { gpus: 4, ...waits });
  expect(found).toMatchObject([{ rule: want, leases: 1, gpus: 8, numbers }]);
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
