/** @file What plans, drains and changes of the fleet do to the ledger: each item applies whole or is refused with a code. */
import { describe, expect, test } from "vitest";
import { MAX_PLAN_ITEMS } from "../../../../domain/lease/plan.ts";
import { clusterId } from "../../../../domain/values/ids.ts";
import { gib, ms } from "../../../../domain/values/units.ts";
import { apply, checkLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gangRequest,
  gpus,
  grantItem,
  host,
  inbox,
  leased,
  planOf,
  readyLedger,
  type RequestSpec,
} from "../../builders.ts";

/** c0: EU, fabric, two H100 hosts, 6 kW. c1: US, no fabric, an H100 and an A100 host. Tenant q may hold 4 + 2 H100 and 3 others. */
const SHAPE = fleetShape(
  [
    { hosts: [{}, {}], powerWatts: 8_000, coolingWatts: 6_000 },
    {
      hosts: [{}, { type: "A100", memoryGiB: 40, watts: 400 }],
      jurisdiction: "US",
      hasFabric: false,
    },
  ],
  [{ id: "q", quota: { H100: 4, "*": 1 }, borrowing: 2 }],
);
const READY = readyLedger(SHAPE);
/** GPUs 0 and 1 of c0/h0 are someone else's; c1/h0 is drained. */
const BUSY = apply(leased(READY, { job: "other", gpus: 2 }, gpus(["c0/h0", 0b11])), {
  kind: "drain",
  hosts: [host("c1/h0")],
  reason: "repair",
  nowMs: 0,
}).ledger;

describe("grants", () => {
  const cases: readonly {
    name: string;
    spec?: RequestSpec;
    parts: ReturnType<typeof gpus>;
    nowMs?: number;
    want?: string;
  }[] = [
    { name: "free GPUs of one host", spec: { gpus: 2 }, parts: gpus(["c0/h0", 0b1100]) },
    {
      name: "GPUs of two hosts of a cluster",
      spec: { gpus: 3 },
      parts: gpus(["c0/h1", 1], ["c0/h0", 0b1100]),
    },
    { name: "a host that nobody knows", parts: gpus(["c9/h0", 1]), want: "HostUnknown" },
    {
      name: "a GPU that the host has not",
      parts: gpus(["c0/h0", 0b100000000]),
      want: "HostUnknown",
    },
    { name: "an empty mask", parts: gpus(["c0/h0", 0]), want: "HostUnknown" },
    { name: "a negative mask", parts: gpus(["c0/h0", -1]), want: "HostUnknown" },
    { name: "a host that is drained", parts: gpus(["c1/h0", 1]), want: "HostUnavailable" },
    { name: "a GPU that is leased", parts: gpus(["c0/h0", 0b10]), want: "GpuTaken" },
    {
      name: "a host twice",
      spec: { gpus: 2 },
      parts: gpus(["c0/h1", 1], ["c0/h1", 2]),
      want: "GpuTaken",
    },
    {
      name: "too few GPUs",
      spec: { gpus: 3 },
      parts: gpus(["c0/h1", 0b11]),
      want: "GangSizeWrong",
    },
    {
      name: "too many GPUs",
      spec: { gpus: 1 },
      parts: gpus(["c0/h1", 0b11]),
      want: "GangSizeWrong",
    },
    { name: "no GPUs", parts: [], want: "GangSizeWrong" },
    {
      name: "fewer before the gang timeout",
      spec: { gpus: 4, gang: { min: 2 } },
      parts: gpus(["c0/h1", 3]),
      nowMs: 29_999,
      want: "GangSizeWrong",
    },
    {
      name: "fewer after the gang timeout",
      spec: { gpus: 4, gang: { min: 2 } },
      parts: gpus(["c0/h1", 3]),
      nowMs: 30_000,
    },
    {
      name: "fewer than the least after the timeout",
      spec: { gpus: 4, gang: { min: 2 } },
      parts: gpus(["c0/h1", 1]),
      nowMs: 30_000,
      want: "GangSizeWrong",
    },
    {
      name: "a size between the shapes",
      spec: { gpus: 4, gang: { min: 1, shapes: [2] } },
      parts: gpus(["c0/h1", 7]),
      nowMs: 30_000,
      want: "GangSizeWrong",
    },
    {
      name: "a size of the shapes",
      spec: { gpus: 4, gang: { min: 1, shapes: [2] } },
      parts: gpus(["c0/h1", 3]),
      nowMs: 30_000,
    },
    {
      name: "another jurisdiction",
      spec: { constraints: { jurisdictions: ["US"] } },
      parts: gpus(["c0/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "no jurisdiction at all",
      spec: { constraints: { jurisdictions: [] } },
      parts: gpus(["c0/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "another cluster",
      spec: { constraints: { clusters: [clusterId("c1")] } },
      parts: gpus(["c0/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "another GPU type",
      spec: { constraints: { gpuTypes: ["A100"] } },
      parts: gpus(["c0/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "too little memory",
      spec: { constraints: { gpuMemoryGiB: gib(80) } },
      parts: gpus(["c1/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "a host that refused before",
      spec: { avoidHosts: [host("c0/h1")] },
      parts: gpus(["c0/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "two hosts instead of one",
      spec: { gpus: 2, constraints: { isSameHost: true } },
      parts: gpus(["c0/h0", 4], ["c0/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "no fabric",
      spec: { constraints: { isSameFabric: true } },
      parts: gpus(["c1/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "two clusters unasked",
      spec: { gpus: 2 },
      parts: gpus(["c0/h1", 1], ["c1/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "two types of GPU",
      spec: { gpus: 2, constraints: { maxClusters: 2 } },
      parts: gpus(["c0/h1", 1], ["c1/h1", 1]),
      want: "ConstraintBroken",
    },
    {
      name: "quota and borrowing",
      spec: { gpus: 6, tenant: "q" },
      parts: gpus(["c0/h1", 0b111111]),
    },
    {
      name: "more than both",
      spec: { gpus: 7, tenant: "q" },
      parts: gpus(["c0/h1", 0b1111111]),
      want: "QuotaExceeded",
    },
    {
      name: "more than the quota of all other types",
      spec: { gpus: 4, tenant: "q" },
      parts: gpus(["c1/h1", 0b1111]),
      want: "QuotaExceeded",
    },
    {
      name: "more power than the lower budget",
      spec: { gpus: 7 },
      parts: gpus(["c0/h1", 0b1111111]),
      want: "PowerExceeded",
    },
  ];
  test.each(cases)("$name: $want", ({ spec = {}, parts, nowMs = 0, want }) => {
    const asked = inbox(BUSY, [ask({ job: "a", ...spec })]).ledger;
    const { ledger, refusals, granted } = applyPlan(asked, planOf([grantItem("a", parts)]), nowMs);
    expect(refusals.map(({ code }) => code)).toEqual(want === undefined ? [] : [want]);
    expect(granted).toEqual(want === undefined ? ["lease-2"] : []);
    if (want !== undefined) expect(ledger).toBe(asked);
    expect(checkLedger(ledger)).toEqual([]);
  });

  test("a grant takes the next token, sorts its hosts, waits in the outbox and ends the wait", () => {
    const request = gangRequest({ job: "a", gpus: 3, requestedAtMs: 5 });
    const { ledger } = applyPlan(
      inbox(READY, [{ kind: "request", request }]).ledger,
      planOf([{ ...grantItem("a", gpus(["c0/h1", 1], ["c0/h0", 3])), reason: "here" }]),
      9,
    );
    expect([...ledger.leases.values()]).toEqual([
      {
        id: "lease-1",
        token: 1,
        jobId: "a",
        runId: "a-run1",
        seq: 1,
        class: "training",
        tenant: "t",
        gpus: gpus(["c0/h0", 3], ["c0/h1", 1]),
        grantedAtMs: 9,
        requestedAtMs: 5,
        state: "granted",
        terms: {
          priority: 0,
          submittedAtMs: 0,
          gang: request.gang,
          constraints: request.constraints,
        },
      },
    ]);
    expect([...ledger.outbox]).toEqual([["lease-1", { reason: "here" }]]);
    expect(ledger.requests.size).toBe(0);
    expect(ledger.nextToken).toBe(2);
  });

  test.each([
    { name: "a request that has ended", entries: [end("a")], want: "RequestGone" },
    {
      name: "a request that was asked anew",
      entries: [ask({ job: "a", seq: 2 })],
      want: "RequestSuperseded",
    },
    {
      name: "a request of a former run",
      entries: [ask({ job: "a", run: "r2", requestedAtMs: 1 })],
      want: "RequestSuperseded",
    },
  ])("$name is not granted", ({ entries, want }) => {
    const { ledger } = inbox(READY, [ask({ job: "a" }), ...entries]);
    const { refusals } = applyPlan(ledger, planOf([grantItem("a", gpus(["c0/h0", 1]))]));
    expect(refusals).toMatchObject([{ code: want, request: { jobId: "a" } }]);
  });

  test("of two items for one GPU the first wins and the rest goes on", () => {
    const asked = inbox(READY, [ask({ job: "a" }), ask({ job: "b" }), ask({ job: "c" })]).ledger;
    const items = [
      grantItem("a", gpus(["c0/h0", 1])),
      grantItem("b", gpus(["c0/h0", 1])),
      grantItem("c", gpus(["c0/h0", 2])),
    ];
    const { refusals, granted } = applyPlan(asked, planOf(items));
    expect(granted).toEqual(["lease-1", "lease-2"]);
    expect(refusals).toMatchObject([{ code: "GpuTaken", request: { jobId: "b" } }]);
  });

  test("a plan grants at most 256 items and asks to be continued", () => {
    const wide = readyLedger(fleetShape([{ hosts: Array.from({ length: 40 }, () => ({})) }]));
    const jobs = Array.from({ length: 300 }, (_, at) => `j${at}`);
    const asked = inbox(
      wide,
      jobs.map((job) => ask({ job })),
    ).ledger;
    const items = jobs.map((job, at) => grantItem(job, gpus([`c0/h${at >> 3}`, 1 << (at & 7)])));
    const { granted, refusals, needsDecision } = applyPlan(asked, planOf(items));
    expect(granted.length).toBe(MAX_PLAN_ITEMS);
    expect(new Set(refusals.map(({ code }) => code))).toEqual(new Set(["EntryTooLarge"]));
    expect(needsDecision).toBe(true);
  });
});

describe("vacating leases", () => {
  test("only the hosts that have not confirmed count as taken", () => {
    const held = leased(READY, { job: "a", gpus: 2 }, gpus(["c0/h0", 1], ["c0/h1", 1]));
    const { ledger } = inbox(held, [
      end("a", { unconfirmed: ["c0/h1"] }),
      ask({ job: "b" }),
      ask({ job: "c" }),
    ]);
    const items = [grantItem("b", gpus(["c0/h0", 1])), grantItem("c", gpus(["c0/h1", 1]))];
    const { granted, refusals, ledger: after } = applyPlan(ledger, planOf(items));
    expect(granted).toEqual(["lease-2"]);
    expect(refusals).toMatchObject([{ code: "GpuTaken", request: { jobId: "c" } }]);
    expect(checkLedger(after)).toEqual([]);
  });
});

describe("reasons", () => {
  const reason = {
    code: "WaitingForGpus",
    message: "m",
    numbers: {},
    holders: [],
    wakeOn: ["lease-released"],
  } as const;
  const key = { jobId: gangRequest().jobId, runId: gangRequest().runId, seq: 1 };
  const asked = inbox(READY, [ask({ job: "a" })]).ledger;
  const reasonsAfter = (ledger: Ledger, pending: Parameters<typeof planOf>[1]): number =>
    applyPlan(ledger, planOf([], pending)).ledger.reasons.size;

  test.each([
    { name: "of a waiting request is kept", pending: [{ request: key, reason }], want: 1 },
    {
      name: "of an older request is dropped",
      pending: [{ request: { ...key, seq: 0 }, reason }],
      want: 0,
    },
    {
      name: "that nothing could change is dropped",
      pending: [{ request: key, reason: { ...reason, wakeOn: [] } }],
      want: 0,
    },
  ])("a reason $name", ({ pending, want }) => {
    expect(reasonsAfter(asked, pending)).toBe(want);
  });

  test("a reason goes with its request", () => {
    const known = applyPlan(asked, planOf([], [{ request: key, reason }])).ledger;
    expect(inbox(known, [end("a")]).ledger.reasons.size).toBe(0);
    expect(applyPlan(known, planOf([grantItem("a", gpus(["c0/h0", 1]))])).ledger.reasons.size).toBe(
      0,
    );
    expect(inbox(known, [ask({ job: "a", seq: 2 })]).ledger.reasons.size).toBe(0);
  });
});

describe("the fleet", () => {
  const drain = (ledger: Ledger, name: string): ReturnType<typeof apply> =>
    apply(ledger, { kind: "drain", hosts: [host(name)], reason: "repair", nowMs: 0 });

  test("draining and undraining a host comes back to the same ledger", () => {
    const drained = drain(READY, "c0/h0").ledger;
    expect(drained.hosts.get(host("c0/h0"))).toMatchObject({
      isDrained: true,
      drainReason: "repair",
    });
    expect(drain(drained, "c0/h0").ledger).toBe(drained);
    const undrained = apply(drained, { kind: "undrain", hosts: [host("c0/h0")], nowMs: 0 });
    expect(undrained.ledger).toEqual(READY);
    expect(undrained.needsDecision).toBe(true);
  });

  test("a drained host keeps its state through a new agent, and a host that is unknown is refused", () => {
    const gone = inbox(drain(READY, "c0/h0").ledger, [
      { kind: "agent-deregistered", hosts: [host("c0/h0")], epoch: "e1" },
    ]).ledger;
    expect(gone.hosts.get(host("c0/h0"))).toEqual({ isDrained: true, drainReason: "repair" });
    expect(drain(READY, "c8/h0").refusals).toMatchObject([{ code: "HostUnknown" }]);
  });

  test("a lowered quota and a vanished host keep their leases and show as over-use; nothing is added to it", () => {
    const held = leased(READY, { job: "a", gpus: 6, tenant: "q" }, gpus(["c0/h0", 0b111111]));
    const shape = fleetShape(
      [{ hosts: [{}, {}], powerWatts: 700 }],
      [{ id: "q", quota: { H100: 2 } }],
    );
    const lowered = apply(held, {
      kind: "fleet-changed",
      shape,
      detailsHash: "sha",
      nowMs: 0,
    }).ledger;
    expect(lowered.detailsHash).toBe("sha");
    expect(checkLedger(lowered)).toEqual([
      "over-use (6): tenant q holds 6 of 2 GPUs (H100)",
      "over-use (6): c0 draws 4200 of 700 W",
    ]);
    const asked = inbox(lowered, [ask({ job: "b", tenant: "q" }), ask({ job: "c" })]).ledger;
    const items = [grantItem("b", gpus(["c0/h1", 1])), grantItem("c", gpus(["c0/h1", 1]))];
    expect(applyPlan(asked, planOf(items)).refusals.map(({ code }) => code)).toEqual([
      "QuotaExceeded",
      "PowerExceeded",
    ]);
    const vanished = apply(held, { kind: "fleet-changed", shape: fleetShape([]), nowMs: 0 }).ledger;
    expect(vanished.leases).toEqual(held.leases);
    expect(checkLedger(vanished)).toEqual([
      "over-use (6): lease-1 holds GPUs of c0/h0, which the fleet lacks",
    ]);
    expect(checkLedger(inbox(vanished, [end("a")]).ledger)).toEqual([]);
  });

  test("a gang timeout of zero makes smaller sizes acceptable at once", () => {
    const asked = inbox(READY, [
      ask({ job: "a", gpus: 4, gang: { min: 1, timeoutMs: ms(0) } }),
    ]).ledger;
    expect(applyPlan(asked, planOf([grantItem("a", gpus(["c0/h0", 1]))])).refusals).toEqual([]);
  });
});
