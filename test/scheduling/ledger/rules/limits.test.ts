/** @file Watts of sites and racks, anti-affinity, maintenance and quota: what a grant may not break, as `apply` judges it. */

import { describe, expect, it } from "vitest";
import type { ClusterShape, FleetShape } from "../../../../domain/fleet/fleet.ts";
import { runId, tenantId, token, leaseId } from "../../../../domain/values/ids.ts";
import type { GangRequest, HostGpus, Lease } from "../../../../domain/lease/lease.ts";
import { ms, watts } from "../../../../domain/values/units.ts";
import { checkLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import { checkGrant } from "../../../../scheduling/ledger/rules/grant-check.ts";
import { indexFleet } from "../../../../scheduling/ledger/rules/fleet-index.ts";
import { forbiddingWindow, quotaLimit } from "../../../../scheduling/ledger/rules/limits.ts";
import { heldBy, release, take, usageOf } from "../../../../scheduling/ledger/rules/usage.ts";
import { emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import { fleetShape, gangRequest, gpus, host, type RequestSpec } from "../../builders.ts";

const HOUR_MS = 3_600_000;

/** Two clusters of two hosts in one site; the hosts of the first stand in one rack. */
function shapeWith(change: {
  readonly site?: Partial<NonNullable<FleetShape["sites"]>[number]>;
  readonly rackWatts?: number;
  readonly maintenance?: ClusterShape["maintenance"];
}): FleetShape {
  const shape = fleetShape([{ hosts: [{}, {}] }, { hosts: [{}, {}] }]);
  const [first, second] = shape.clusters;
  if (first === undefined || second === undefined) throw new Error("two clusters");
  return {
    ...shape,
    ...(change.site !== undefined && { sites: [{ id: "s", ...change.site }] }),
    clusters: [
      {
        ...first,
        site: "s",
        hosts: first.hosts.map((each) => ({ ...each, rack: "r" })),
        ...(change.rackWatts !== undefined && {
          racks: [{ id: "r", powerBudgetWatts: watts(change.rackWatts) }],
        }),
        ...(change.maintenance !== undefined && { maintenance: change.maintenance }),
      },
      { ...second, site: "s" },
    ],
  };
}

const STANDINGS = new Map(
  ["c0/h0", "c0/h1", "c1/h0", "c1/h1"].map((name) => [
    host(name),
    { agent: { epoch: "e", runQueue: "r", orderQueue: "o", address: "a" }, isDrained: false },
  ]),
);

function leaseOf(request: GangRequest, held: readonly HostGpus[], number: number): Lease {
  const { jobId, seq, tenant, requestedAtMs, priority, submittedAtMs, gang, constraints } = request;
  const of = token(number);
  return {
    id: leaseId(of),
    token: of,
    jobId,
    runId: runId(`${jobId}-run1`),
    seq,
    class: request.class,
    tenant,
    gpus: held,
    grantedAtMs: 0,
    requestedAtMs,
    state: "held",
    terms: { priority, submittedAtMs, gang, constraints },
  };
}

/** What is said of the grant while the leases are held; undefined when it is allowed. */
function problemOf(
  shape: FleetShape,
  leases: readonly Lease[],
  { spec, held, nowMs = 0 }: { spec: RequestSpec; held: readonly HostGpus[]; nowMs?: number },
) {
  const index = indexFleet(shape);
  const usage = usageOf(leases, index);
  return checkGrant(
    gangRequest(spec),
    { gpus: held },
    { index, usage, hostStatuses: STANDINGS, nowMs },
  );
}

describe("watts", () => {
  const eight = (job: string, at: string, number: number): Lease =>
    leaseOf(gangRequest({ job, gpus: 8 }), gpus([at, 255]), number);

  it.each([
    [
      "the site",
      { site: { powerBudgetWatts: watts(8 * 700) } },
      "c1/h0",
      "site s would draw 11200 W of 5600 W",
    ],
    [
      "the site's cooling",
      { site: { coolingBudgetWatts: watts(8 * 700) } },
      "c1/h0",
      "site s would draw",
    ],
    ["the rack", { rackWatts: 8 * 700 }, "c0/h1", "rack c0 r would draw 11200 W of 5600 W"],
    ["the rack, but elsewhere", { rackWatts: 8 * 700 }, "c1/h1", undefined],
    [
      "a site with room for both",
      { site: { powerBudgetWatts: watts(16 * 700) } },
      "c1/h0",
      undefined,
    ],
  ])("of %s limit what is granted", (_, change, at, want) => {
    const found = problemOf(shapeWith(change), [eight("a", "c0/h0", 1)], {
      spec: { job: "b", gpus: 8 },
      held: gpus([at, 255]),
    });
    if (want === undefined) expect(found).toBeUndefined();
    else
      expect(found).toMatchObject({
        code: "PowerExceeded",
        message: expect.stringContaining(want),
      });
  });

  it("of a gang over two hosts of a rack count together", () => {
    const grant = { spec: { gpus: 16 }, held: gpus(["c0/h0", 255], ["c0/h1", 255]) };
    expect(problemOf(shapeWith({ rackWatts: 15 * 700 }), [], grant)).toMatchObject({
      code: "PowerExceeded",
    });
    expect(problemOf(shapeWith({ rackWatts: 16 * 700 }), [], grant)).toBeUndefined();
  });

  it("above a lowered budget show as over-use", () => {
    const leases = [eight("a", "c0/h0", 1), eight("b", "c0/h1", 2)];
    const shape = shapeWith({ rackWatts: 8 * 700, site: { powerBudgetWatts: watts(10 * 700) } });
    const ledger = {
      ...emptyLedger(shape),
      nextToken: 3,
      leases: new Map(leases.map((lease) => [lease.id, lease])),
    };
    expect(checkLedger(ledger)).toEqual([
      "over-use (6): site s draws 11200 of 7000 W",
      "over-use (6): rack c0 r draws 11200 of 5600 W",
    ]);
  });
});

describe("an anti-affinity label", () => {
  const spec = (job: string, tenant = "t", label = "db"): RequestSpec => ({
    job,
    tenant,
    constraints: { antiAffinity: label },
  });
  const first = leaseOf(gangRequest(spec("a")), gpus(["c0/h0", 1]), 1);

  it.each([
    ["another job of the tenant with that label", spec("b"), "c0/h0", "ConstraintBroken"],
    ["the same, on another host", spec("b"), "c0/h1", undefined],
    ["another tenant's job", spec("b", "u"), "c0/h0", undefined],
    ["another label", spec("b", "t", "web"), "c0/h0", undefined],
    ["no label", { job: "b" }, "c0/h0", undefined],
    ["the job itself, which asks again", { ...spec("a"), seq: 2 }, "c0/h0", undefined],
  ])("keeps apart: %s", (_, request, at, want) => {
    const found = problemOf(shapeWith({}), [first], { spec: request, held: gpus([at, 2]) });
    expect(found?.code).toBe(want);
  });

  it("is free again when the lease is released, and no sooner", () => {
    const index = indexFleet(shapeWith({}));
    const usage = usageOf([first], index);
    const other = leaseOf(gangRequest(spec("a")), gpus(["c0/h0", 4]), 2);
    take(usage, index, heldBy(other));
    release(usage, index, heldBy(first));
    const terms = { index, usage, hostStatuses: STANDINGS, nowMs: 0 };
    const grant = { gpus: gpus(["c0/h0", 2]) };
    expect(checkGrant(gangRequest(spec("b")), grant, terms)?.code).toBe("ConstraintBroken");
    release(usage, index, heldBy(other));
    expect(checkGrant(gangRequest(spec("b")), grant, terms)).toBeUndefined();
    expect(usage.labels.size).toBe(0);
  });

  it("that two jobs of one host have is a fault of the ledger", () => {
    const second = leaseOf(gangRequest(spec("b")), gpus(["c0/h0", 2]), 2);
    const ledger = {
      ...emptyLedger(shapeWith({})),
      nextToken: 3,
      leases: new Map([first, second].map((lease) => [lease.id, lease])),
    };
    expect(checkLedger(ledger)).toEqual(["6: c0/h0 has lease-1 and lease-2 of label db"]);
  });
});

describe("maintenance", () => {
  const window = { fromMs: 2 * HOUR_MS, toMs: 3 * HOUR_MS };
  const isPreemptible = { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(0) };
  it.each([
    ["over before it", { timeLimitMs: ms(HOUR_MS) }, HOUR_MS, undefined],
    ["over at its very beginning", { timeLimitMs: ms(HOUR_MS) }, HOUR_MS, undefined],
    ["a moment too long", { timeLimitMs: ms(HOUR_MS + 1) }, HOUR_MS, window],
    [
      "a time limit that crosses it, though preemptible",
      { timeLimitMs: ms(4 * HOUR_MS) },
      0,
      window,
    ],
    ["no time limit, preemptible", {}, HOUR_MS, undefined],
    ["no time limit, not preemptible", { class: "inference" as const }, HOUR_MS, window],
    [
      "an array with a time limit, not preemptible",
      { class: "inference" as const, timeLimitMs: ms(1), slots: 4 },
      0,
      window,
    ],
    ["an array, preemptible", { timeLimitMs: ms(1), slots: 4 }, 0, undefined],
    ["anything while it lasts", { timeLimitMs: ms(1) }, 2 * HOUR_MS, window],
    ["anything at its end", { timeLimitMs: ms(9 * HOUR_MS) }, 3 * HOUR_MS, undefined],
  ])("forbids, or not, what is %s", (_, change, nowMs, want) => {
    const request: Parameters<typeof forbiddingWindow>[0] = { class: "training", ...change };
    expect(forbiddingWindow(request, [window], nowMs)).toEqual(want);
  });

  it("of several windows the one that is over first is named", () => {
    const later = { fromMs: 0, toMs: 9 * HOUR_MS };
    const soon = { fromMs: 0, toMs: HOUR_MS };
    const request = { class: "training" as const, preemption: isPreemptible } as GangRequest;
    expect(forbiddingWindow(request, [later, soon], 0)).toBe(soon);
  });

  it("keeps a grant from the hosts that it names and from no others", () => {
    const shape = shapeWith({ maintenance: [{ hosts: [host("c0/h1")], ...window }] });
    const spec: RequestSpec = { timeLimitMs: ms(9 * HOUR_MS) };
    const at = (name: string) => problemOf(shape, [], { spec, held: gpus([name, 1]) });
    expect(at("c0/h0")).toBeUndefined();
    expect(at("c0/h1")).toMatchObject({
      code: "HostUnavailable",
      message: "c0/h1 is in maintenance from 1970-01-01T02:00:00.000Z to 1970-01-01T03:00:00.000Z",
    });
  });
});

describe("a quota", () => {
  it("is the tenant's own up to the quota, and borrowed above it", () => {
    const rule = { id: tenantId("t"), weight: 1, quota: { H100: 8, "*": 2 }, borrowingLimit: 4 };
    expect(quotaLimit(rule, "H100")).toEqual({ key: "H100", ownGpus: 8, gpus: 12 });
    expect(quotaLimit(rule, "L4")).toEqual({ key: "*", ownGpus: 2, gpus: 6 });
  });
});
