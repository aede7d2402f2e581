/** @file Which eviction orders go out, which jobs are notified that their leases were revoked, and when a shrunk gang may grow. */

import { describe, expect, it } from "vitest";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import {
  hostId,
  clusterId,
  jobId,
  leaseId,
  runId,
  tenantId,
  token,
} from "../../../domain/values/ids.ts";
import type { Eviction, Lease } from "../../../domain/lease/lease.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { ms } from "../../../domain/values/units.ts";
import {
  mayAnyGrow,
  nextGrowthAtMs,
  revokedLosses,
  unsentOrders,
} from "../../../machines/fleet/evictions.ts";

import { fleetShape } from "../../scheduling/builders.ts";

const HOST = hostId(clusterId("c"), "h");
const TERMS = {
  priority: 0,
  submittedAtMs: 0,
  gang: { gpus: 4, min: 1, timeoutMs: ms(0) },
  constraints: { isSameHost: false, isSameFabric: false },
  checkpoint: { graceMs: ms(5_000) },
} as const;
const INFER = jobId("infer");

function leaseOf(count: number, more: Partial<Lease> = {}): Lease {
  return {
    id: leaseId(token(count)),
    token: token(count),
    jobId: jobId("train"),
    runId: runId("run"),
    seq: 1,
    class: "training",
    tenant: tenantId("default"),
    gpus: [{ host: HOST, mask: 0b11 }],
    grantedAtMs: 0,
    requestedAtMs: 0,
    state: "held",
    terms: TERMS,
    ...more,
  };
}
const evictionOf = (more: Partial<Eviction> = {}): Eviction => ({
  forJob: INFER,
  atMs: 1_000,
  lostGpuSeconds: 1,
  ...more,
});
const requestOf = (job: string, seq: number): PendingRequest => ({
  jobId: jobId(job),
  runId: runId("run"),
  seq,
  name: "answers",
  tenant: tenantId("shop"),
  class: "inference",
  priority: 0,
  gang: TERMS.gang,
  constraints: TERMS.constraints,
  submittedAtMs: 0,
  requestedAtMs: 0,
  arrival: 1,
});
const holdings = (leases: readonly Lease[], requests: readonly PendingRequest[] = []) => ({
  leases: new Map(leases.map((lease) => [lease.id, lease])),
  requests: new Map(requests.map((request) => [request.jobId, request])),
  shape: fleetShape([{ hosts: [{}] }]),
});

describe("unsentOrders", () => {
  it("names for whom, why, what may be kept, and how long it may take", () => {
    const keep = [{ host: HOST, mask: 0b1 }];
    const lease = leaseOf(1, { eviction: evictionOf({ keep }) });
    expect(unsentOrders(holdings([lease], [requestOf("infer", 1)]))).toEqual([
      {
        jobId: "train",
        runId: "run",
        order: {
          seq: 1,
          lease: "lease-1",
          forJob: "infer",
          reason: "its GPUs are due to answers (inference, tenant shop)",
          keep,
          graceMs: 125_000,
        },
      },
    ]);
  });

  it("brings the limits of the fleet's policy", () => {
    const before = holdings([leaseOf(1, { eviction: evictionOf() })]);
    const policy = { ...DEFAULT_POLICY, maxPreemptions: 3, coolDownMs: ms(60_000) };
    const [limited] = unsentOrders({ ...before, shape: { ...before.shape, policy } });
    expect(limited?.order.limits).toEqual({ most: 3, coolDownMs: 60_000 });
  });

  it("says of a job's own that it grows", () => {
    const lease = leaseOf(1, { eviction: evictionOf({ forJob: jobId("train") }) });
    const [order] = unsentOrders(holdings([lease]));
    expect(order?.order.reason).toBe("all 4 GPUs of its gang are available; it runs on 2");
  });

  it.each([
    { name: "no eviction", lease: leaseOf(1) },
    { name: "sent", lease: leaseOf(1, { eviction: evictionOf({ isSent: true }) }) },
    {
      name: "a grant that has not arrived",
      lease: leaseOf(1, { state: "granted", eviction: evictionOf() }),
    },
    {
      name: "vacating",
      lease: leaseOf(1, { state: "vacating", vacatingHosts: [HOST], eviction: evictionOf() }),
    },
  ])("leaves out: $name", ({ lease }) => {
    expect(unsentOrders(holdings([lease]))).toEqual([]);
  });
});

describe("revokedLosses", () => {
  const revoked = leaseOf(1, {
    state: "vacating",
    vacatingHosts: [HOST],
    eviction: evictionOf({ isSent: true }),
  });
  it.each([
    { name: "its job is told", leases: [revoked], requests: [], want: 1 },
    {
      name: "one whose order was never sent ended by itself",
      leases: [leaseOf(1, { ...revoked, eviction: evictionOf() })],
      requests: [],
      want: 0,
    },
    {
      name: "its job has asked again",
      leases: [revoked],
      requests: [requestOf("train", 2)],
      want: 0,
    },
    {
      name: "its job holds another lease",
      leases: [revoked, leaseOf(2, { seq: 2 })],
      requests: [],
      want: 0,
    },
    { name: "another job waits", leases: [revoked], requests: [requestOf("infer", 7)], want: 1 },
  ])("$name", ({ leases, requests, want }) => {
    const losses = revokedLosses(holdings(leases, requests));
    expect(losses).toEqual(
      want === 0 ? [] : [{ jobId: "train", runId: "run", lease: "lease-1", hosts: [HOST] }],
    );
  });
});

describe("mayAnyGrow", () => {
  const growing = { ...TERMS, gang: { ...TERMS.gang, mayGrow: true } } as const;
  it.each([
    { name: "one that may not", more: {}, want: false },
    { name: "one that is smaller", more: { terms: growing }, want: true },
    {
      name: "one of the full size",
      more: { terms: growing, gpus: [{ host: HOST, mask: 0b1111 }] },
      want: false,
    },
    {
      name: "one that stops for it",
      more: { terms: growing, eviction: evictionOf() },
      want: false,
    },
    {
      name: "one that has not heard of its grant",
      more: { terms: growing, state: "granted" as const },
      want: true,
    },
  ])("$name: $want", ({ more, want }) => {
    expect(mayAnyGrow(holdings([leaseOf(1, more)]))).toBe(want);
  });

  it.each([
    { name: "it has run for a while first", nowMs: 10_000, want: 60_000 },
    { name: "its time has come: any cycle may do it", nowMs: 60_000, want: Infinity },
  ])("nextGrowthAtMs: $name", ({ nowMs, want }) => {
    expect(nextGrowthAtMs(holdings([leaseOf(1, { terms: growing })]), nowMs)).toBe(want);
  });
});
