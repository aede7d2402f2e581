/** @file Why a job waits, by code: the figures of each reason, the jobs that it names, the events that may end it, and its text. */
import { describe, expect, test } from "vitest";
import { clusterId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { checkFeasibility } from "../../../scheduling/admission/feasibility.ts";
import { claimQuota } from "../../../scheduling/admission/quota-claims.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import type { ReasonContext } from "../../../scheduling/reasons/blocking-jobs.ts";
import { openHolderIndex } from "../../../scheduling/reasons/holder-index.ts";
import { describeWait, notNominated } from "../../../scheduling/reasons/pending-reason.ts";
import {
  fleetShape,
  gpus,
  host,
  leased,
  readyLedger,
  type ClusterSpec,
  type RequestSpec,
  type TenantSpec,
} from "../builders.ts";
import { reserved } from "../reservation/reservations.ts";
import { drained, pendingRequest, viewAt, withReservations } from "../views.ts";

const ready = (cluster: ClusterSpec = {}, tenants: readonly TenantSpec[] = []): Ledger =>
  readyLedger(fleetShape([{ hosts: [{}, {}], ...cluster }], tenants));
const H0 = gpus(["c0/h0", 0xff]);
const H1 = gpus(["c0/h1", 0xff]);
const FULL = leased(leased(ready(), { job: "x", gpus: 8 }, H0), { job: "y", gpus: 8 }, H1);

function contextOf(ledger: Ledger, nowMs = 0): ReasonContext {
  const view = viewAt(ledger, nowMs);
  return {
    ...view,
    snapshot: ledger,
    evictions: [],
    holders: openHolderIndex(ledger.leases, [], view.capacity.index),
    blocker: () => undefined,
  };
}

/** By the code that the check finds. */
function reasonFor(ledger: Ledger, spec: RequestSpec, change: Partial<ReasonContext> = {}) {
  const context = { ...contextOf(ledger), ...change };
  const request = pendingRequest({ job: "a", ...spec });
  const fit = checkFeasibility(request, context);
  if (fit.kind === "start") throw new Error("it can start");
  return describeWait(request, fit.code, context);
}

describe("the reason", () => {
  const cases: readonly {
    readonly ledger: Ledger;
    readonly spec: RequestSpec;
    readonly want: ReturnType<typeof reasonFor>["code"];
    readonly numbers: Readonly<Record<string, number>>;
    readonly holders?: readonly string[];
    readonly wakeOn: readonly string[];
  }[] = [
    {
      ledger: ready(),
      spec: { gpus: 17 },
      want: "NoMatchingFlavor",
      numbers: { needGpus: 17, fleetGpus: 16, largestEverGpus: 16 },
      wakeOn: ["fleet-changed", "job-resized"],
    },
    {
      ledger: ready({}, [{ id: "t", quota: { H100: 3 }, borrowing: 1 }]),
      spec: { gpus: 5 },
      want: "ExceedsMaxQuota",
      numbers: { needGpus: 5, quotaGpus: 4 },
      wakeOn: ["fleet-changed", "job-resized"],
    },
    {
      ledger: drained(ready(), "c0/h1"),
      spec: { gpus: 9 },
      want: "WaitingForHosts",
      numbers: { needGpus: 9, largestIdleGpus: 8, largestEverGpus: 16, drainedHosts: 1 },
      wakeOn: ["host-ready", "fleet-changed"],
    },
    {
      ledger: leased(
        ready({}, [{ id: "t", quota: { H100: 6 }, borrowing: 3 }]),
        { job: "x", gpus: 8 },
        H0,
      ),
      spec: { gpus: 4 },
      want: "WaitingForQuota",
      numbers: { needGpus: 4, quotaGpus: 9, ownGpus: 6, heldGpus: 8 },
      holders: ["x"],
      wakeOn: ["lease-released", "fleet-changed", "earlier-job-started"],
    },
    {
      ledger: withReservations(ready(), reserved("x", H0)),
      spec: { gpus: 9 },
      want: "BehindEarlierJob",
      numbers: { needGpus: 9, freeGpus: 16 },
      holders: ["x"],
      wakeOn: ["earlier-job-started", "lease-released", "host-ready"],
    },
    {
      ledger: leased(ready({ powerWatts: 10 * 700 }), { job: "x", gpus: 8 }, H0),
      spec: { gpus: 8 },
      want: "WaitingForPower",
      numbers: { needGpus: 8, freeGpus: 8, largestNowGpus: 2 },
      holders: ["x"],
      wakeOn: ["lease-released", "fleet-changed"],
    },
    {
      ledger: leased(ready(), { job: "x", gpus: 7 }, gpus(["c0/h0", 0x07], ["c0/h1", 0x0f])),
      spec: { gpus: 6, constraints: { isSameHost: true } },
      want: "TopologyPlacementFailed",
      numbers: { needGpus: 6, freeGpus: 9, largestNowGpus: 5, largestFreeHostGpus: 5 },
      holders: ["x"],
      wakeOn: ["lease-released", "host-ready", "job-resized"],
    },
    {
      ledger: FULL,
      spec: { gpus: 8 },
      want: "WaitingForGpus",
      numbers: { needGpus: 8, freeGpus: 0, largestNowGpus: 0, fleetGpus: 16 },
      holders: ["x", "y"],
      wakeOn: ["lease-released", "host-ready"],
    },
  ];
  test.each(cases)(
    "$want has its figures",
    ({ ledger, spec, want, numbers, holders = [], wakeOn }) => {
      const reason = reasonFor(ledger, spec);
      expect(reason).toMatchObject({ code: want, numbers, holders, wakeOn });
      expect(Object.keys(reason.numbers).sort()).toEqual(Object.keys(numbers).sort());
    },
  );

  test.each(cases)(
    "$want names the job, its need and each figure that it has",
    ({ ledger, spec, numbers }) => {
      const { message } = reasonFor(ledger, spec);
      expect(message).toMatch(new RegExp(`^a needs ${spec.gpus} GPUs\\b.*[;,] .*\\.$`));
      const { drainedHosts: _word, ...figures } = numbers;
      for (const figure of Object.values(figures).filter((each) => each > 0))
        expect(message).toContain(String(figure));
    },
  );
});

test("claims of earlier jobs count against the quota and are named", () => {
  const ledger = ready({}, [{ id: "t", quota: { H100: 8 } }]);
  const context = contextOf(ledger);
  claimQuota(context.claims, pendingRequest({ job: "early" }), new Map([["H100", 6]]));
  const reason = reasonFor(ledger, { gpus: 4 }, context);
  expect(reason).toMatchObject({
    code: "WaitingForQuota",
    numbers: { needGpus: 4, quotaGpus: 8, heldGpus: 0, claimedGpus: 6 },
    holders: ["early"],
  });
  expect(reason.message).toContain("Wait until 2 of them are given back");
});

test("evictions for the job, of this cycle and of earlier ones, are counted and their jobs named", () => {
  const request = pendingRequest({ job: "a", gpus: 8 });
  const [now, before] = FULL.leases.values();
  if (now === undefined || before === undefined) throw new Error("two jobs run");
  const eviction = { forJob: request.jobId, atMs: 0, lostGpuSeconds: 0 };
  const leases = new Map(FULL.leases).set(before.id, { ...before, eviction });
  const reason = describeWait(request, "WaitingForPreempted", {
    ...contextOf({ ...FULL, leases }),
    evictions: [{ lease: now.id, forJob: request.jobId }],
  });
  expect(reason).toMatchObject({
    code: "WaitingForPreempted",
    numbers: { needGpus: 8, comingGpus: 16, freeGpus: 0 },
    holders: ["x", "y"],
    wakeOn: ["lease-released"],
  });
});

test("a reason names a few of the clusters that a request names, however many and however long they are", () => {
  const clusters = Array.from({ length: 250 }, (_, at) => `${"no-such-cluster".repeat(20)}-${at}`);
  const { message } = reasonFor(ready(), {
    constraints: { clusters: ["c9", ...clusters].map(clusterId) },
  });
  expect(message).toContain("in c9 or ");
  expect(message).toContain(" or 247 others");
  expect(message.length).toBeLessThan(1_000);
});

describe("the type that comes nearest", () => {
  test("gives the figures", () => {
    const hosts = [
      { type: "A100", gpus: 2 },
      { type: "H100", gpus: 4 },
      { type: "L4", gpus: 4 },
    ];
    const { message, numbers } = reasonFor(ready({ hosts }), { gpus: 5 });
    expect(numbers["largestEverGpus"]).toBe(4);
    expect(message).toContain("4 H100 that match");
  });
});

test("a gang that more clusters would hold is told how many", () => {
  const ledger = readyLedger(fleetShape([{}, {}, {}]));
  expect(reasonFor(ledger, { gpus: 20 }).message).toContain("maxClusters to 3 or more");
  const narrow = reasonFor(ledger, { gpus: 20, constraints: { isSameFabric: true } });
  expect(narrow.message).not.toContain("maxClusters");
});

test("smaller sizes to come wake the job by the clock, unless it is hopeless", () => {
  const gang = { min: 4, timeoutMs: ms(30_000) };
  const timed = reasonFor(FULL, { gpus: 8, gang });
  expect(timed.wakeOn).toEqual(["lease-released", "host-ready", "timer"]);
  expect(timed.message).toContain("8 GPUs (4 after 30 s)");
  const later = { ...contextOf(FULL, 30_000) };
  expect(reasonFor(FULL, { gpus: 8, gang }, later).wakeOn).not.toContain("timer");
  const hopeless = reasonFor(ready(), { gpus: 40, gang: { ...gang, min: 30 } });
  expect(hopeless.wakeOn).not.toContain("timer");
});

test("the need lists the constraints of the job", () => {
  const { message } = reasonFor(ready(), {
    gpus: 1,
    constraints: { gpuTypes: ["B200", "GB200"], isSameHost: true, jurisdictions: ["US"] },
    avoidHosts: [host("c0/h0")],
  });
  const want =
    "a needs 1 GPU of type B200 or GB200 on one host under US not on 1 hosts that refused it; ";
  expect(message.startsWith(want)).toBe(true);
});

test("a request that no cycle has looked at is pending evaluation, and a clock ends that", () => {
  expect(notNominated(pendingRequest({ job: "a" }))).toMatchObject({
    code: "PendingEvaluation",
    holders: [],
    wakeOn: ["timer"],
  });
});
