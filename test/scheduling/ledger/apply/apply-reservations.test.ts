/** @file The reservations of a plan: what is refused, how they change places, and to which jobs their GPUs are granted meanwhile. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../../domain/values/ids.ts";
import type { HostGpus } from "../../../../domain/lease/lease.ts";
import type { Plan, ReserveItem } from "../../../../domain/lease/plan.ts";
import { ms } from "../../../../domain/values/units.ts";
import { checkLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import {
  applyReserve,
  lentGpus,
  overlapOf,
  usesHeadroom,
} from "../../../../scheduling/ledger/apply/apply-reservations.ts";
import { ledgerOf, openTransaction } from "../../../../scheduling/ledger/apply/transaction.ts";
import type { Applied, Ledger } from "../../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  fleetShape,
  gpus,
  grantItem,
  inbox,
  leased,
  planOf,
  readyLedger,
} from "../../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
const H0 = gpus(["c0/h0", 0xff]);
const H1 = gpus(["c0/h1", 0xff]);

const reserve = (
  job: string,
  parts: readonly HostGpus[],
  spec: Partial<ReserveItem> = {},
): ReserveItem => ({ jobId: jobId(job), gpus: parts, kind: "preemption", ...spec });
const reserving = (items: readonly ReserveItem[]): Plan => ({ ...planOf([]), reserve: items });

function clean({ ledger, refusals }: Applied): Ledger {
  expect(refusals).toEqual([]);
  expect(checkLedger(ledger)).toEqual([]);
  return ledger;
}

describe("reservations", () => {
  const TWO = inbox(READY, [ask({ job: "a", gpus: 8 }), ask({ job: "b", gpus: 8 })]).ledger;

  test.each([
    {
      name: "of GPUs that another job has reserved",
      items: [reserve("a", H0), reserve("b", H0)],
      want: "GpuReserved",
    },
    { name: "for a job that does not wait", items: [reserve("ghost", H0)], want: "RequestGone" },
    {
      name: "on a host that is not there",
      items: [reserve("a", gpus(["c9/h9", 1]))],
      want: "HostUnknown",
    },
    {
      name: "of GPUs that are not there",
      items: [reserve("a", gpus(["c0/h0", 0x100]))],
      want: "HostUnknown",
    },
    {
      name: "of a host twice",
      items: [reserve("a", gpus(["c0/h0", 1], ["c0/h0", 2]))],
      want: "HostUnknown",
    },
  ])("$name are refused: $want", ({ items, want }) => {
    const { ledger, refusals } = applyPlan(TWO, reserving(items));
    expect(refusals.map(({ code }) => code)).toEqual([want]);
    expect(checkLedger(ledger)).toEqual([]);
  });

  test("change places in one plan, in whatever order they are named, and keep their age", () => {
    const first = clean(applyPlan(TWO, reserving([reserve("a", H0), reserve("b", H1)]), 1));
    const plan = reserving([reserve("a", H1), reserve("b", H0)]);
    const second = clean(applyPlan(first, plan, 2));
    expect([...(second.reservations?.values() ?? [])]).toEqual([
      { jobId: "a", gpus: H1, kind: "preemption", sinceMs: 1 },
      { jobId: "b", gpus: H0, kind: "preemption", sinceMs: 1 },
    ]);
  });

  test("that are refused leave the job what it had", () => {
    const first = clean(applyPlan(TWO, reserving([reserve("a", H0), reserve("b", H1)])));
    const { ledger } = applyPlan(first, reserving([reserve("a", H1)]));
    expect(ledger.reservations?.get(jobId("a"))?.gpus).toEqual(H0);
  });

  test("named again as they are change nothing", () => {
    const plan = reserving([reserve("a", H0)]);
    const first = clean(applyPlan(TWO, plan, 1));
    expect(applyPlan(first, plan, 2).ledger).toBe(first);
  });

  test("of nothing end what the job had", () => {
    const first = clean(applyPlan(TWO, reserving([reserve("a", H0)])));
    expect(clean(applyPlan(first, reserving([reserve("a", [])]))).reservations).toBeUndefined();
  });

  test("for a head are lent to jobs that end before it can start", () => {
    const head = reserve("a", H0, { kind: "backfill", usableUntilMs: 1_000 });
    const opportunistic = clean(applyPlan(TWO, reserving([head])));
    const asked = inbox(opportunistic, [
      ask({ job: "brief", timeLimitMs: ms(900) }),
      ask({ job: "long", timeLimitMs: ms(901) }),
    ]).ledger;
    const plan = planOf([
      grantItem("long", gpus(["c0/h0", 1])),
      grantItem("brief", gpus(["c0/h0", 2])),
    ]);
    const { refusals, granted } = applyPlan(asked, plan, 100);
    expect(refusals.map(({ code, request }) => [code, request?.jobId])).toEqual([
      ["GpuReserved", "long"],
    ]);
    expect(granted).toHaveLength(1);
  });
});

describe("inside a transaction", () => {
  const TWO = inbox(READY, [ask({ job: "a", gpus: 8 }), ask({ job: "b", gpus: 8 })]).ledger;

  test("a reservation holds its GPUs from the item on, and a plan that takes them is refused", () => {
    const transaction = openTransaction(TWO);
    transaction.nowMs = 5;
    applyReserve(transaction, [reserve("a", gpus(["c0/h0", 0b0110])), reserve("b", H0)]);
    expect(transaction.refusals.map(({ code }) => code)).toEqual(["GpuReserved"]);
    expect([...(ledgerOf(transaction).reservations ?? [])]).toEqual([
      ["a", { jobId: "a", gpus: gpus(["c0/h0", 0b0110]), kind: "preemption", sinceMs: 5 }],
    ]);
    expect(overlapOf(transaction, gpus(["c0/h0", 0b0011], ["c0/h1", 1]))).toEqual(
      gpus(["c0/h0", 0b0010]),
    );
  });
});

describe("the inference headroom", () => {
  const lease = (spec: Parameters<typeof leased>[1]) =>
    [...leased(READY, { gpus: 8, ...spec }, H0).leases.values()][0] ?? never();

  test("is for inference jobs that run on, and not for arrays", () => {
    const inference = lease({ class: "inference" });
    expect(usesHeadroom(inference)).toBe(true);
    expect(usesHeadroom(lease({ class: "training" }))).toBe(false);
    expect(usesHeadroom({ ...inference, state: "vacating" })).toBe(false);
    expect(usesHeadroom({ ...inference, slots: 1 })).toBe(false);
  });

  test("is refilled for the GPUs of a lease for which no other job was evicted yet", () => {
    const inference = lease({ class: "inference" });
    expect(lentGpus(inference)).toBe(8);
    expect(lentGpus({ ...inference, headroomGpus: 3 })).toBe(5);
  });

  test.each([
    { job: "serve", class: "inference", want: [] },
    { job: "train", class: "training", want: ["RequestGone"] },
  ] as const)("is reserved in the name of a running $class job: $want", (each) => {
    const ledger = leased(READY, { job: each.job, gpus: 8, class: each.class }, H0);
    const { refusals } = applyPlan(
      ledger,
      reserving([reserve(each.job, H1, { kind: "headroom" })]),
    );
    expect(refusals.map(({ code }) => code)).toEqual(each.want);
  });
});

function never(): never {
  throw new Error("the lease was not granted");
}
