/** @file The account of leases: what it counts, and that taking and releasing in any order leaves what the remaining leases say. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { FleetShape } from "../../../../domain/fleet/fleet.ts";
import type { HostGpus, Lease } from "../../../../domain/lease/lease.ts";
import { clusterId, leaseId, tenantId, token } from "../../../../domain/values/ids.ts";
import { watts } from "../../../../domain/values/units.ts";
import { indexFleet } from "../../../../scheduling/ledger/rules/fleet-index.ts";
import {
  heldBy,
  heldUnder,
  labelled,
  release,
  rivalOn,
  takenGpus,
  usageOf,
  type Usage,
} from "../../../../scheduling/ledger/rules/usage.ts";
import { fleetShape, gangRequest, gpus, host, type RequestSpec } from "../../builders.ts";

/** Two clusters of two hosts in one site with a budget; the hosts of the first stand in one rack with a budget. */
function shape(): FleetShape {
  const plain = fleetShape(
    [{ hosts: [{}, { type: "A100", watts: 400 }] }, { hosts: [{}, {}] }],
    [{ id: "t", quota: { H100: 8, "*": 4 } }],
  );
  const clusters = plain.clusters.map((cluster, at) => ({
    ...cluster,
    site: "s",
    ...(at === 0 && {
      racks: [{ id: "r", powerBudgetWatts: watts(1e6) }],
      hosts: cluster.hosts.map((each) => ({ ...each, rack: "r" })),
    }),
  }));
  return { ...plain, sites: [{ id: "s", powerBudgetWatts: watts(1e6) }], clusters };
}

const INDEX = indexFleet(shape());

function leaseOf(number: number, parts: readonly HostGpus[], spec: RequestSpec = {}): Lease {
  const { jobId, runId, seq, tenant, ...request } = gangRequest(spec);
  const { class: jobClass, requestedAtMs, priority, submittedAtMs, gang, constraints } = request;
  return {
    id: leaseId(token(number)),
    token: token(number),
    ...{ jobId, runId, seq, tenant, class: jobClass, requestedAtMs },
    gpus: parts,
    grantedAtMs: 0,
    state: "held",
    terms: { priority, submittedAtMs, gang, constraints },
  };
}

describe("the leases of a fleet", () => {
  const usage = usageOf(
    [
      leaseOf(1, gpus(["c0/h0", 0b0111], ["c0/h1", 0b0001])),
      leaseOf(2, gpus(["c0/h0", 0b1000], ["c1/h0", 0b0011]), { job: "b", tenant: "free" }),
      leaseOf(3, gpus(["gone/h0", 0b1111])),
    ],
    INDEX,
  );

  test("have their GPUs taken, those on hosts that have left the fleet as well", () => {
    expect([...usage.taken]).toEqual([
      ["c0/h0", 0b1111],
      ["c0/h1", 0b0001],
      ["c1/h0", 0b0011],
      ["gone/h0", 0b1111],
    ]);
  });

  test("count against the quota key of their GPU type; a tenant without a rule has none", () => {
    expect(heldUnder(usage, tenantId("t"), "H100")).toBe(3);
    expect(heldUnder(usage, tenantId("t"), "*")).toBe(1);
    expect(heldUnder(usage, tenantId("free"), "H100")).toBe(0);
  });

  test("draw the watts of their hosts in the cluster, the site and the rack", () => {
    expect(usage.watts.get(clusterId("c0"))).toBe(4 * 700 + 400);
    expect(usage.watts.get(clusterId("c1"))).toBe(2 * 700);
    expect([...usage.budgets].sort()).toEqual([
      ["rack c0 r", 4 * 700 + 400],
      ["site s", 6 * 700 + 400],
    ]);
  });
});

describe("a vacating lease", () => {
  const held = gpus(["c0/h0", 3], ["c1/h0", 3]);

  test("still takes the GPUs of the hosts that have not confirmed, and no others", () => {
    const lease: Lease = {
      ...leaseOf(1, held),
      state: "vacating",
      vacatingHosts: [host("c1/h0")],
    };
    expect(takenGpus(lease)).toEqual(gpus(["c1/h0", 3]));
    expect([...usageOf([lease], INDEX).taken]).toEqual([["c1/h0", 3]]);
    expect(takenGpus(leaseOf(1, held))).toEqual(held);
  });
});

describe("a label", () => {
  const labelledBy = (antiAffinity: string): RequestSpec => ({ constraints: { antiAffinity } });
  const usage = usageOf([leaseOf(1, gpus(["c0/h0", 1]), labelledBy("db"))], INDEX);

  test.each([
    { name: "another job of the tenant", spec: labelledBy("db"), at: "c0/h0", want: "a" },
    { name: "another label", spec: labelledBy("web"), at: "c0/h0", want: undefined },
    { name: "no label", spec: {}, at: "c0/h0", want: undefined },
    { name: "another host", spec: labelledBy("db"), at: "c0/h1", want: undefined },
  ])("keeps away, or not: $name", ({ spec, at, want }) => {
    expect(rivalOn(usage, host(at), gangRequest({ job: "b", ...spec }))).toBe(want);
  });

  test("does not keep away its own job", () => {
    expect(rivalOn(usage, host("c0/h0"), gangRequest(labelledBy("db")))).toBeUndefined();
    expect(labelled(gangRequest().jobId, undefined)).toEqual({});
  });
});

test("releasing some of the leases leaves the account of the others", () => {
  const lease = fc.record({
    at: fc.constantFrom("c0/h0", "c0/h1", "c1/h0", "c1/h1"),
    job: fc.constantFrom("a", "b", "c"),
    label: fc.constantFrom(undefined, "db", "web"),
    isKept: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(lease, { maxLength: 8 }), (specs) => {
      const leases = specs.map(({ at, job, label }, bit) =>
        leaseOf(bit + 1, gpus([at, 1 << bit]), {
          job,
          constraints: label === undefined ? {} : { antiAffinity: label },
        }),
      );
      const usage = usageOf(leases, INDEX);
      for (const [bit, each] of leases.entries())
        if (specs[bit]?.isKept === false) release(usage, INDEX, heldBy(each));
      const kept = leases.filter((_, bit) => specs[bit]?.isKept);
      expect(figures(usage)).toEqual(figures(usageOf(kept, INDEX)));
    }),
  );
});

const figures = ({ taken, quota, watts: drawn, budgets, labels }: Usage) => ({
  counts: [taken, drawn, budgets].map(nonZero),
  quota: [...quota].flatMap(([tenant, counts]) => nonZero(counts).map((count) => [tenant, count])),
  labels: [...labels].map(([key, jobs]) => [key, [...jobs].sort()]).sort(),
});

const nonZero = (counts: ReadonlyMap<string, number>) =>
  [...counts].filter(([, count]) => count !== 0).sort();
