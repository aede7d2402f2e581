/** @file Which leases are evicted for a request: dues, quotas, protection, the least loss, and the place that comes first. */
import { describe, expect, test } from "vitest";
import { jobId, runId } from "../../../domain/values/ids.ts";
import { gpuCountOf, type HostGpus } from "../../../domain/lease/lease.ts";
import { ms } from "../../../domain/values/units.ts";
import { DEFAULT_POLICY, type FleetShape } from "../../../domain/fleet/fleet.ts";
import { apply, checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  fleetShape,
  gpus,
  inbox,
  leased,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";
import { asPlan, evictedJobs, preemptFor, yielded } from "../preempting.ts";

const NOW_MS = 600_000;
const SHAPE = fleetShape([{ hosts: [{}, {}] }]);

type Held = readonly [job: string, parts: readonly HostGpus[], spec?: RequestSpec];

/** Leases that were granted at the beginning, in order. */
function busy(shape: FleetShape, held: readonly Held[], waiting: readonly RequestSpec[]): Ledger {
  let ledger = readyLedger(shape);
  for (const [job, parts, spec = {}] of held)
    ledger = leased(ledger, { job, gpus: gpuCountOf(parts), ...spec }, parts);
  return inbox(ledger, waiting.map(ask), NOW_MS).ledger;
}

const H0 = gpus(["c0/h0", 0xff]);
const H1 = gpus(["c0/h1", 0xff]);
const INFERENCE: RequestSpec = { job: "infer", class: "inference", gpus: 2, requestedAtMs: NOW_MS };

describe("victims", () => {
  const cases: readonly {
    readonly name: string;
    readonly shape?: FleetShape;
    readonly held: readonly Held[];
    readonly waiting?: RequestSpec;
    readonly want: readonly string[];
  }[] = [
    {
      name: "inference takes from training, from the job that loses least",
      held: [
        ["old", H0, { checkpoint: { graceMs: ms(30_000) } }],
        ["blind", H1],
      ],
      want: ["old"],
    },
    {
      name: "no job is evicted that does not allow it",
      held: [
        ["a", H0, { preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) } }],
        ["b", H1, { class: "inference", tenant: "u" }],
      ],
      want: [],
    },
    {
      name: "no job is evicted in its protected time",
      held: [
        [
          "a",
          H0,
          { preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(600_001) } },
        ],
        [
          "b",
          H1,
          { preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(600_001) } },
        ],
      ],
      want: [],
    },
    {
      name: "of equal losses a GPU the one that wastes fewer GPUs",
      held: [
        ["large", H0],
        ["small", gpus(["c0/h1", 0x03])],
        ["rest", gpus(["c0/h1", 0xfc])],
      ],
      want: ["small"],
    },
    {
      name: "several small ones on one host, where one host is asked for",
      held: [
        ["a", gpus(["c0/h0", 0x0f])],
        ["b", gpus(["c0/h0", 0xf0])],
        ["c", H1, { preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) } }],
      ],
      waiting: { ...INFERENCE, gpus: 8, constraints: { isSameHost: true } },
      want: ["a", "b"],
    },
    {
      name: "what is free is used before more is taken",
      held: [
        ["a", gpus(["c0/h0", 0x3f])],
        ["b", gpus(["c0/h1", 0x7f])],
      ],
      waiting: { ...INFERENCE, gpus: 8 },
      want: ["a"],
    },
    {
      name: "a heavier class does not wait because enough is free but too scattered",
      held: [
        ["a", gpus(["c0/h0", 0x1f])],
        ["b", gpus(["c0/h1", 0x7f])],
      ],
      waiting: { ...INFERENCE, gpus: 4, constraints: { isSameHost: true } },
      want: ["a"],
    },
    {
      name: "a class that is not heavier does",
      held: [
        ["a", gpus(["c0/h0", 0x1f])],
        ["b", gpus(["c0/h1", 0x7f])],
      ],
      waiting: {
        job: "more",
        tenant: "u",
        gpus: 4,
        requestedAtMs: NOW_MS,
        constraints: { isSameHost: true },
      },
      want: [],
    },
    {
      name: "a tenant that has its due gets no more",
      held: [
        ["a", H0],
        ["b", H1, { tenant: "u" }],
      ],
      waiting: { job: "more", tenant: "u", gpus: 1, requestedAtMs: NOW_MS },
      want: [],
    },
    {
      name: "a tenant that has nothing takes from one that has all",
      held: [
        ["a", H0],
        ["b", H1],
      ],
      waiting: { job: "more", tenant: "u", gpus: 8, requestedAtMs: NOW_MS },
      want: ["b"],
    },
    {
      name: "a gang above its tenant's due waits",
      held: [
        ["a", H0],
        ["b", H1],
      ],
      waiting: { job: "more", tenant: "u", gpus: 9, requestedAtMs: NOW_MS },
      want: [],
    },
    {
      name: "no job is evicted by its own tenant's job of the same class",
      held: [
        ["a", H0],
        ["b", H1],
      ],
      waiting: { job: "more", gpus: 1, requestedAtMs: NOW_MS, priority: 1_000 },
      want: [],
    },
    {
      name: "no job is evicted on hosts that the request cannot use",
      shape: fleetShape([{ hosts: [{ type: "A100" }, {}] }]),
      held: [
        ["a", H0, { checkpoint: { graceMs: ms(0) } }],
        ["b", H1],
      ],
      waiting: { ...INFERENCE, constraints: { gpuTypes: ["H100"] } },
      want: ["b"],
    },
    {
      name: "a gang over hosts takes whole gangs until it fits",
      held: [
        ["a", H0],
        ["b", H1],
      ],
      waiting: { ...INFERENCE, gpus: 12 },
      want: ["a", "b"],
    },
  ];
  test.each(cases)("$name", ({ shape = SHAPE, held, waiting = INFERENCE, want }) => {
    const ledger = busy(shape, held, [waiting]);
    const plan = preemptFor(ledger, waiting.job ?? "", NOW_MS);
    expect(evictedJobs(ledger, plan)).toEqual(want);
  });

  test("a fleet that does not preempt evicts no job", () => {
    const quiet = { ...SHAPE, policy: { ...DEFAULT_POLICY, isPreempting: false } };
    const ledger = busy(
      quiet,
      [
        ["a", H0],
        ["b", H1],
      ],
      [INFERENCE],
    );
    expect(() => preemptFor(ledger, "infer", NOW_MS)).toThrow("does not preempt");
  });

  test("nothing is evicted beyond the tenant's budget of the hour", () => {
    const poor = (gpuSeconds: number): FleetShape => ({
      ...SHAPE,
      policy: { ...DEFAULT_POLICY, preemptionBudgetGpuSeconds: gpuSeconds },
    });
    const held: readonly Held[] = [
      ["a", H0, { checkpoint: { graceMs: ms(2_000) } }],
      ["b", H1, { checkpoint: { graceMs: ms(2_000) } }],
    ];
    expect(preemptFor(busy(poor(16), held, [INFERENCE]), "infer", NOW_MS)?.evict).toHaveLength(1);
    expect(preemptFor(busy(poor(15.9), held, [INFERENCE]), "infer", NOW_MS)).toBeUndefined();
  });
});

describe("the way of an eviction", () => {
  test("the place comes first: the beneficiary is granted just what was reserved, and the victim waits behind", () => {
    const ledger = busy(
      SHAPE,
      [
        ["a", H0],
        ["b", H1],
      ],
      [INFERENCE],
    );
    const plan = preemptFor(ledger, "infer", NOW_MS);
    if (plan === undefined) throw new Error("no victim was found");
    const { ledger: ordered, refusals } = applyPlan(ledger, asPlan(plan), NOW_MS);
    expect(refusals).toEqual([]);
    const free = yielded(ordered, NOW_MS + 2_000);
    expect(checkLedger(free)).toEqual([]);
    const grant = {
      kind: "grant" as const,
      request: {
        jobId: jobId("infer"),
        runId: runId("infer-run1"),
        seq: 1,
      },
      gpus: plan.reserve.gpus,
      reason: "test",
    };
    const done = apply(free, {
      kind: "plan",
      plan: { ...asPlan(plan), reserve: [], evict: [], items: [grant] },
      nowMs: NOW_MS + 2_000,
    });
    expect(done.refusals).toEqual([]);
    expect(done.granted).toHaveLength(1);
    expect([...done.ledger.requests.keys()]).toEqual(["b"]);
    expect(preemptFor(done.ledger, "b", NOW_MS + 100_000)).toBeUndefined();
  });

  test("a gang that may shrink keeps the GPUs that the request does not need", () => {
    const shrinks: RequestSpec = {
      gang: { gpus: 8, min: 2 },
      preemption: { isPreemptible: true, mayShrink: true, minRuntimeMs: ms(0) },
    };
    const ledger = busy(
      SHAPE,
      [
        ["a", H0, shrinks],
        ["b", H1, shrinks],
      ],
      [INFERENCE],
    );
    const plan = preemptFor(ledger, "infer", NOW_MS);
    const [item] = plan?.evict ?? [];
    expect(gpuCountOf(item?.keep ?? [])).toBe(6);
    expect(plan && applyPlan(ledger, asPlan(plan), NOW_MS).refusals).toEqual([]);
  });
});

describe("quotas", () => {
  const shape = fleetShape(
    [{ hosts: [{}, {}] }],
    [
      { id: "owner", quota: { H100: 8 }, borrowing: 8 },
      { id: "guest", quota: { H100: 8 }, borrowing: 8 },
    ],
  );

  test("what was borrowed goes back to its owner", () => {
    const ledger = busy(
      shape,
      [
        ["a", H0, { tenant: "guest" }],
        ["b", H1, { tenant: "guest" }],
      ],
      [{ job: "own", tenant: "owner", gpus: 8, requestedAtMs: NOW_MS }],
    );
    expect(evictedJobs(ledger, preemptFor(ledger, "own", NOW_MS))).toHaveLength(1);
  });

  test("an owner gets back borrowed GPUs even from a class that is due more", () => {
    const heavy: RequestSpec = {
      tenant: "guest",
      class: "interactive",
    };
    const ledger = busy(
      shape,
      [
        ["a", H0, heavy],
        ["b", H1, heavy],
      ],
      [{ job: "own", tenant: "owner", gpus: 8, requestedAtMs: NOW_MS }],
    );
    expect(evictedJobs(ledger, preemptFor(ledger, "own", NOW_MS))).toHaveLength(1);
  });

  test("no tenant borrows by force: GPUs within a quota are safe from tenants above theirs", () => {
    const ledger = busy(
      shape,
      [
        ["a", H0, { tenant: "owner" }],
        ["b", H1, { tenant: "guest", class: "inference" }],
      ],
      [{ job: "more", tenant: "guest", class: "inference", gpus: 4, requestedAtMs: NOW_MS }],
    );
    expect(preemptFor(ledger, "more", NOW_MS)).toBeUndefined();
  });
});
