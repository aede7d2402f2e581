/** @file The plain cycle: which requests start where, and what the others are told. */
import { describe, expect, test } from "vitest";
import type { HostGpus } from "../../../domain/lease/lease.ts";
import type { PendingReason } from "../../../domain/lease/pending.ts";
import { MAX_PLAN_ITEMS, type Plan } from "../../../domain/lease/plan.ts";
import { clusterId, jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import {
  decide,
  decideBaseline,
  DECIDE_LIMITS,
  DECIDE_POLICIES,
} from "../../../scheduling/cycle/decide.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  fleetShape,
  gpus,
  hello,
  host,
  inbox,
  leased,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

const TWO_BY_TWO = fleetShape([{ hosts: [{}, {}] }, { hosts: [{}, {}], jurisdiction: "US" }]);

const asking = (ledger: Ledger, specs: readonly RequestSpec[]): Ledger =>
  inbox(
    ledger,
    specs.map((spec, at) => ask({ submittedAtMs: at, ...spec })),
  ).ledger;

const grants = (plan: Plan): Record<string, readonly HostGpus[]> =>
  Object.fromEntries(plan.items.map(({ request, gpus: parts }) => [request.jobId, parts]));

function reasonOf(plan: Plan, job: string): PendingReason {
  const found = plan.pending.find(({ request }) => request.jobId === job);
  if (found === undefined) throw new Error(`no reason for ${job}`);
  return found.reason;
}

describe("grants", () => {
  test.each([
    {
      name: "the lowest GPUs of the first host",
      specs: [{ job: "a", gpus: 2 }],
      want: { a: gpus(["c0/h0", 0b11]) },
    },
    {
      name: "the first host that holds the gang whole, before splitting it",
      specs: [
        { job: "a", gpus: 5 },
        { job: "b", gpus: 4 },
      ],
      want: { a: gpus(["c0/h0", 0b11111]), b: gpus(["c0/h1", 0b1111]) },
    },
    {
      name: "several hosts of one cluster when one is too small",
      specs: [{ job: "a", gpus: 12 }],
      want: { a: gpus(["c0/h0", 255], ["c0/h1", 0b1111]) },
    },
    {
      name: "the next cluster when the first is too full",
      specs: [
        { job: "a", gpus: 12 },
        { job: "b", gpus: 12 },
      ],
      want: {
        a: gpus(["c0/h0", 255], ["c0/h1", 0b1111]),
        b: gpus(["c1/h0", 255], ["c1/h1", 0b1111]),
      },
    },
    {
      name: "several clusters only when no single one fits",
      specs: [
        { job: "a", gpus: 4 },
        { job: "b", gpus: 20, constraints: { maxClusters: 2 } },
      ],
      want: {
        a: gpus(["c0/h0", 0b1111]),
        b: gpus(["c0/h0", 0b11110000], ["c0/h1", 255], ["c1/h0", 255]),
      },
    },
    {
      name: "the constrained cluster",
      specs: [{ job: "a", constraints: { jurisdictions: ["US"] } }],
      want: { a: gpus(["c1/h0", 1]) },
    },
    {
      name: "first come, first served",
      specs: [
        { job: "late", gpus: 32, submittedAtMs: 9, constraints: { maxClusters: 2 } },
        { job: "early", gpus: 1, submittedAtMs: 3 },
      ],
      want: { early: gpus(["c0/h0", 1]) },
    },
    {
      name: "higher priority before time",
      specs: [
        { job: "a", gpus: 16, constraints: { clusters: [clusterId("c0")] } },
        { job: "b", gpus: 1, priority: 1 },
      ],
      want: { b: gpus(["c0/h0", 1]) },
    },
  ])("$name", ({ specs, want }) => {
    expect(grants(decide(asking(readyLedger(TWO_BY_TWO), specs), 0))).toEqual(want);
  });

  test("a gang of one host carries the bandwidth that is predicted for its GPUs, others and unknown ones none", () => {
    const ledger = asking(readyLedger(TWO_BY_TWO), [
      { job: "a", gpus: 8 },
      { job: "b", gpus: 12 },
      { job: "c", gpus: 1 },
    ]);
    const ports = {
      bandwidthOf: (id: string, mask: number) => (mask === 255 ? id.length : undefined),
    };
    expect(decide(ledger, 0, ports).items.map(({ predictedGBs }) => predictedGBs)).toEqual([
      5,
      undefined,
      undefined,
    ]);
  });

  test("scarce power goes to the thriftiest GPUs when the first choice would draw too much", () => {
    const shape = fleetShape([
      {
        hosts: [
          { gpus: 8, watts: 200 },
          { gpus: 4, watts: 100 },
        ],
        powerWatts: 800,
      },
    ]);
    const plan = decide(asking(readyLedger(shape), [{ job: "a", gpus: 6 }]), 0);
    expect(grants(plan)).toEqual({ a: gpus(["c0/h0", 0b11], ["c0/h1", 0b1111]) });
  });

  test("a gang shrinks to the largest acceptable size once its timeout is over, and the plan says when that is", () => {
    const busy = leased(
      readyLedger(fleetShape([{ hosts: [{}] }])),
      { job: "x", gpus: 3 },
      gpus(["c0/h0", 0b111]),
    );
    const ledger = asking(busy, [
      {
        job: "a",
        gpus: 8,
        requestedAtMs: 100,
        gang: { min: 2, timeoutMs: ms(50), shapes: [6, 4, 2] },
      },
    ]);
    const early = decide(ledger, 120);
    expect(early.items).toEqual([]);
    expect(early.wakeAtMs).toBe(150);
    expect(reasonOf(early, "a").wakeOn).toContain("timer");
    const late = decide(ledger, 150);
    expect(grants(late)).toEqual({ a: gpus(["c0/h0", 0b01111000]) });
    expect(late.wakeAtMs).toBeUndefined();
  });

  test("a plan stops at its most items and asks to be continued", () => {
    const shape = fleetShape([{ hosts: Array.from({ length: 40 }, () => ({})) }]);
    const specs = Array.from({ length: 300 }, (_, at) => ({ job: `j${at}` }));
    const ledger = asking(readyLedger(shape), specs);
    const plan = decide(ledger, 0);
    expect(plan.items.length).toBe(MAX_PLAN_ITEMS);
    expect(plan.wakeAtMs).toBeDefined();
    const next = decide(applyPlan(ledger, plan).ledger, 0);
    expect(next.items.length).toBe(44);
  });
});

describe("reasons", () => {
  const shape = fleetShape(
    [
      { hosts: [{}, {}] },
      {
        hosts: [{ type: "A100", memoryGiB: 40 }],
        jurisdiction: "US",
        powerWatts: 700 * 6,
        hasFabric: false,
      },
    ],
    [{ id: "q", quota: { H100: 4 } }],
  );
  /** Job x holds 5 and 5 GPUs of the H100 hosts, y 2 of the A100 one, z 2 of q's 4. */
  const busy = [
    { spec: { job: "x", gpus: 10 }, parts: gpus(["c0/h0", 0b11111], ["c0/h1", 0b11111]) },
    { spec: { job: "y", gpus: 2 }, parts: gpus(["c1/h0", 0b11]) },
    { spec: { job: "z", gpus: 2, tenant: "q" }, parts: gpus(["c0/h0", 0b1100000]) },
  ].reduce((ledger, { spec, parts }) => leased(ledger, spec, parts), readyLedger(shape));

  const cases: readonly { name: string; spec: RequestSpec; want: Partial<PendingReason> }[] = [
    {
      name: "nothing like it in the fleet",
      spec: { gpus: 2, constraints: { gpuTypes: ["B200"] } },
      want: {
        code: "NoMatchingFlavor",
        numbers: { needGpus: 2, fleetGpus: 0, largestEverGpus: 0 },
        holders: [],
      },
    },
    {
      name: "more than any cluster has",
      spec: { gpus: 17 },
      want: {
        code: "NoMatchingFlavor",
        numbers: { needGpus: 17, fleetGpus: 16, largestEverGpus: 16 },
      },
    },
    {
      name: "more than the quota",
      spec: { gpus: 5, tenant: "q", constraints: { gpuTypes: ["H100"] } },
      want: { code: "ExceedsMaxQuota", numbers: { needGpus: 5, quotaGpus: 4 } },
    },
    {
      name: "the quota is in use",
      spec: { gpus: 3, tenant: "q", constraints: { gpuTypes: ["H100"] } },
      want: {
        code: "WaitingForQuota",
        numbers: { needGpus: 3, quotaGpus: 4, heldGpus: 2 },
        holders: ["z"].map(jobId),
      },
    },
    {
      name: "power is used up",
      spec: { gpus: 6, constraints: { gpuTypes: ["A100"] } },
      want: {
        code: "WaitingForPower",
        numbers: { needGpus: 6, freeGpus: 6, largestNowGpus: 4 },
        holders: ["y"].map(jobId),
      },
    },
    {
      name: "free, but scattered",
      spec: { gpus: 4, constraints: { gpuTypes: ["H100"], isSameHost: true } },
      want: {
        code: "TopologyPlacementFailed",
        numbers: { needGpus: 4, freeGpus: 4, largestNowGpus: 3, largestFreeHostGpus: 3 },
        holders: ["x", "z"].map(jobId),
      },
    },
    {
      name: "others hold them",
      spec: { gpus: 6, constraints: { gpuTypes: ["H100"] } },
      want: {
        code: "WaitingForGpus",
        numbers: { needGpus: 6, freeGpus: 4, largestNowGpus: 4, fleetGpus: 16 },
        holders: ["x", "z"].map(jobId),
      },
    },
  ];
  test.each(cases)("$name: $want.code", ({ spec, want }) => {
    const reason = reasonOf(decide(asking(busy, [{ job: "a", ...spec }]), 0), "a");
    expect(reason).toMatchObject(want);
    expect(reason.wakeOn.length).toBeGreaterThan(0);
    expect(reason.message).toMatch(/^a needs \d+ GPUs?.*\.$/);
  });

  test("more than the clusters that it may span hold says how many would", () => {
    const wide = readyLedger(TWO_BY_TWO);
    expect(reasonOf(decide(asking(wide, [{ job: "a", gpus: 20 }]), 0), "a").message).toMatch(
      /32 \w+ that match, but 16 in as many.*Set constraints\.maxClusters to 2 or more/,
    );
  });

  test("hosts without agent or drained: WaitingForHosts, and nothing is reserved for it", () => {
    const drained = apply(busy, {
      kind: "drain",
      hosts: [host("c0/h1")],
      reason: "r",
      nowMs: 0,
    }).ledger;
    const plan = decide(
      asking(drained, [
        { job: "a", gpus: 16 },
        { job: "b", gpus: 1 },
      ]),
      0,
    );
    expect(reasonOf(plan, "a")).toMatchObject({
      code: "WaitingForHosts",
      numbers: { needGpus: 16, largestIdleGpus: 8, largestEverGpus: 16, drainedHosts: 1 },
    });
    expect(Object.keys(grants(plan))).toEqual(["b"]);
  });

  test("behind an earlier job: BehindEarlierJob, and the earlier one is named", () => {
    const plan = decide(
      asking(busy, [
        { job: "a", gpus: 16 },
        { job: "b", gpus: 1, constraints: { gpuTypes: ["H100"] } },
      ]),
      0,
    );
    expect(plan.items).toEqual([]);
    expect(reasonOf(plan, "b")).toMatchObject({
      code: "BehindEarlierJob",
      numbers: { needGpus: 1, freeGpus: 4 },
      holders: ["a"],
    });
  });

  test("at most eight holders, the lowest ids, in order", () => {
    const many = Array.from({ length: 12 }, (_, at) => at).reduce(
      (ledger, at) =>
        leased(ledger, { job: `h${11 - at}`, gpus: 1 }, gpus([`c0/h${at >> 3}`, 1 << (at & 7)])),
      readyLedger(fleetShape([{ hosts: [{}, {}] }])),
    );
    expect(reasonOf(decide(asking(many, [{ job: "a", gpus: 16 }]), 0), "a").holders).toEqual([
      "h0",
      "h1",
      "h10",
      "h11",
      "h2",
      "h3",
      "h4",
      "h5",
    ]);
  });

  test("a reason is reported once: again only with another code, or with other figures at the front of the queue", () => {
    const specs = Array.from({ length: 60 }, (_, at) => ({
      job: `j${String(at).padStart(2, "0")}`,
      gpus: 16,
    }));
    const ledger = asking(busy, specs);
    const first = decide(ledger, 0);
    expect(first.pending.length).toBe(60);
    const notified = applyPlan(ledger, first).ledger;
    expect(decide(notified, 0).pending).toEqual([]);
    const freed = inbox(notified, [
      { kind: "end", jobId: "z", runId: "z-run1", seq: 1, unconfirmedHosts: [] },
    ]).ledger;
    expect(decide(freed, 0).pending.length).toBe(50);
  });

  test("more reasons than one plan may carry come with the next ones, soon", () => {
    const specs = Array.from({ length: 450 }, (_, at) => ({ job: `j${at}`, gpus: 16 }));
    let ledger = asking(busy, specs);
    for (const want of [200, 200, 50]) {
      const plan = decide(ledger, 7);
      expect(plan.pending.length).toBe(want);
      // In the end only the end of a lease's protected time is waited for.
      expect(plan.wakeAtMs).toBe(want === 50 ? 60_000 : 1_007);
      ledger = applyPlan(ledger, plan).ledger;
    }
    expect(decide(ledger, 7).pending).toEqual([]);
  });
});

describe("bounded work", () => {
  const shape = fleetShape([{ hosts: [{}] }, { hosts: [{}] }]);
  const full = [0, 1].reduce(
    (ledger, at) => leased(ledger, { job: `x${at}`, gpus: 8 }, gpus([`c${at}/h0`, 255])),
    readyLedger(shape),
  );
  const ledger = asking(
    full,
    Array.from({ length: 100 }, (_, at) => ({ job: `j${at}` })),
  );

  test("a cycle stops when its candidates are used up, and asks to be called again", () => {
    const limits = { ...DECIDE_LIMITS, maxCandidates: 60 };
    const plan = decide(ledger, 5, {}, { limits });
    // The first is nominated and gets a reservation, the others are equivalent: one candidate each.
    expect(plan.pending.length).toBeLessThan(100);
    expect(plan.stats.candidates).toBe(60);
    expect(plan.wakeAtMs).toBe(1_005);
  });

  test("the baseline grants free GPUs to the front of the queue, gives no reasons, and asks to be called again", () => {
    const plan = decideBaseline(
      asking(
        readyLedger(shape),
        Array.from({ length: 20 }, (_, at) => ({ job: `j${at}` })),
      ),
      5,
    );
    expect(plan.items.length).toBe(16);
    expect(plan.pending).toEqual([]);
    expect(plan).toMatchObject({ wakeAtMs: 1_005, stats: { method: "baseline" } });
  });

  test("the baseline comes to a request behind thousands of as many tenants, none of which can start", () => {
    const crowd = Array.from({ length: 7_000 }, (_, at) => ({
      ...{ job: `j${at}`, tenant: `t${at}` },
      constraints: { gpuTypes: ["GB300"] },
    }));
    const ledger = asking(readyLedger(shape), [...crowd, { job: "late", tenant: "other" }]);
    expect(Object.keys(grants(decideBaseline(ledger, 5)))).toEqual(["late"]);
  });

  test("a policy whose grant apply would refuse is a bug that does not get out", () => {
    const place = () => ({ gpus: gpus(["c0/h0", 1], ["c1/h0", 1]), candidates: 1 });
    const policies = { ...DECIDE_POLICIES, place };
    const asked = asking(readyLedger(shape), [{ job: "a", gpus: 2 }]);
    expect(() => decide(asked, 0, {}, { policies })).toThrow(/ConstraintBroken/);
  });

  test("a policy that finds nothing lets the request wait for another shape", () => {
    const policies = { ...DECIDE_POLICIES, place: () => ({ candidates: 3 }) };
    const asked = asking(readyLedger(shape), [{ job: "a" }, { job: "b" }]);
    const plan = decide(asked, 0, {}, { policies });
    expect(plan.pending.map(({ reason }) => reason.code)).toEqual([
      "TopologyPlacementFailed",
      "TopologyPlacementFailed",
    ]);
  });
});

test("a host that comes back is offered again", () => {
  const shape = fleetShape([{ hosts: [{}] }]);
  const gone = inbox(readyLedger(shape), [
    { kind: "agent-deregistered", hosts: [host("c0/h0")], epoch: "e1" },
  ]).ledger;
  const ledger = asking(gone, [{ job: "a" }]);
  expect(decide(ledger, 0).items).toEqual([]);
  expect(decide(inbox(ledger, [hello(["c0/h0"], { epoch: "e2" })]).ledger, 0).items.length).toBe(1);
});
