/** @file Jobs that may run on named hosts only: they wait for those, and are told so. */
import { describe, expect, test } from "vitest";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  ask,
  fleetShape,
  gpus,
  grantItem,
  host,
  inbox,
  leased,
  planOf,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }, { hosts: [{}] }]));
const asking = (ledger: Ledger, ...specs: readonly RequestSpec[]): Ledger =>
  unpackLedger(
    packLedger(
      inbox(
        ledger,
        specs.map((spec) => ask(spec)),
      ).ledger,
    ),
  );

describe("a job that names hosts", () => {
  test.each([
    { hosts: ["c0/h1"], count: 3, want: gpus(["c0/h1", 0b111]) },
    { hosts: ["c1/h0", "c0/h1"], count: 8, want: gpus(["c0/h1", 255]) },
    { hosts: ["c0/h0", "c0/h1"], count: 16, want: gpus(["c0/h0", 255], ["c0/h1", 255]) },
  ])("gets $count GPUs on $hosts", ({ hosts, count, want }) => {
    const ledger = asking(READY, {
      job: "a",
      gpus: count,
      constraints: { hosts: hosts.map(host) },
    });
    expect(decide(ledger, 0).items.map((item) => item.gpus)).toEqual([want]);
  });

  test("waits while they are taken, and is told which hosts it wants", () => {
    const busy = leased(READY, { job: "b", gpus: 8 }, gpus(["c0/h1", 255]));
    const ledger = asking(busy, { job: "a", gpus: 8, constraints: { hosts: [host("c0/h1")] } });
    const plan = decide(ledger, 0);
    expect(plan.items).toEqual([]);
    expect(plan.pending[0]?.reason.message).toContain("on c0/h1");
  });

  test("is not granted others, whatever a plan says", () => {
    const spec = { job: "a", gpus: 8, constraints: { hosts: [host("c0/h1")] } };
    const ledger = asking(READY, spec);
    const plan = planOf([grantItem("a", gpus(["c0/h0", 255]))]);
    const { refusals } = apply(ledger, { kind: "plan", plan, nowMs: 0 });
    expect(refusals.map(({ code }) => code)).toEqual(["ConstraintBroken"]);
  });

  test("two requests that differ in their hosts alone stay two", () => {
    const ledger = asking(
      READY,
      { job: "a", gpus: 8, constraints: { hosts: [host("c0/h1")] } },
      { job: "b", gpus: 8, constraints: { hosts: [host("c1/h0")] } },
    );
    expect(decide(ledger, 0).items.map((item) => item.gpus)).toEqual([
      gpus(["c0/h1", 255]),
      gpus(["c1/h0", 255]),
    ]);
  });
});
