/** @file Deficits of flows: service due less service received; siblings sum to zero, and nobody is owed anything while nobody waits. */
import { describe, expect, test } from "vitest";
import { deficitsOf } from "../../../scheduling/fairness/flow-deficits.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  fleetShape,
  gpus,
  grantItem,
  inbox,
  planOf,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));

const asked = (ledger: Ledger, nowMs: number, spec: RequestSpec): Ledger =>
  inbox(ledger, [ask(spec)], nowMs).ledger;
const granted = (ledger: Ledger, nowMs: number, job: string, mask: number): Ledger =>
  applyPlan(ledger, planOf([grantItem(job, gpus(["c0/h0", mask]))]), nowMs).ledger;
/** Job `a` of tenant a, class training, runs on two GPUs from 10 s on. */
const RUNNING = granted(asked(READY, 0, { job: "a", tenant: "a", gpus: 2 }), 10_000, "a", 3);

describe("deficits", () => {
  test("say what is due: service by weight, less service received", () => {
    const waits = asked(READY, 0, { job: "i", tenant: "b", class: "inference" });
    const ledger = granted(asked(waits, 0, { job: "a", tenant: "a", gpus: 2 }), 0, "a", 3);
    const deficits = deficitsOf(ledger, 101_000);
    expect(deficits.map(({ tenants: _tenants, ...rest }) => rest)).toEqual([
      {
        class: "inference",
        weight: 100,
        waiting: 1,
        runningGpus: 0,
        receivedGpuSeconds: 0,
        virtualSeconds: 0,
        deficitGpuSeconds: 200,
      },
      {
        class: "training",
        weight: 1,
        waiting: 0,
        runningGpus: 2,
        receivedGpuSeconds: 202,
        virtualSeconds: 202,
        deficitGpuSeconds: -200,
      },
    ]);
    expect(deficits.map(({ tenants }) => tenants.map(({ tenant }) => tenant))).toEqual([
      ["b"],
      ["a"],
    ]);
  });

  test("owe nothing to anybody while nobody waits", () => {
    const [training] = deficitsOf(RUNNING, 50_000);
    expect(training?.deficitGpuSeconds).toBe(0);
    expect(training?.tenants[0]?.deficitGpuSeconds).toBe(0);
    expect(training?.receivedGpuSeconds).toBe(80);
  });
});
