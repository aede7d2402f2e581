/** @file Small random fleets, requests and happenings for property tests. */
import fc from "fast-check";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { clusterId, leaseId, token } from "../../domain/values/ids.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import { gib, ms } from "../../domain/values/units.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import { fleetShape, gangRequest, hello, host, hostNames, type RequestSpec } from "./builders.ts";

const TYPES = ["H100", "A100"] as const;
const JURISDICTIONS = ["EU", "US"] as const;
export const TENANTS = ["free", "q", "star"] as const;
export const JOBS = ["a", "b", "c", "d", "e"] as const;

/** Mostly absent: a request that constrains everything fits nowhere. */
const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

/** 1 to 3 clusters with 1 to 2 hosts each of 1 to 3 GPUs; watts often scarce and uneven. */
export const fleets: fc.Arbitrary<FleetShape> = fc
  .record({
    clusters: fc.array(
      fc.record({
        hosts: fc.array(
          fc.record({
            gpus: fc.constantFrom(2, 3, 1),
            type: fc.constantFrom("H100", ...TYPES),
            memoryGiB: fc.constantFrom(80, 80, 40),
            watts: fc.constantFrom(100, 200, 0.1),
          }),
          { minLength: 1, maxLength: 2, size: "max" },
        ),
        jurisdiction: fc.constantFrom(...JURISDICTIONS),
        hasFabric: fc.boolean(),
        powerWatts: maybe(fc.constantFrom(300, 450, 150, 0.3)),
        coolingWatts: maybe(fc.constantFrom(200, 500)),
      }),
      { minLength: 1, maxLength: 3, size: "max" },
    ),
    q: fc.constantFrom(2, 3, 4, 1, 0),
    star: fc.constantFrom(2, 3, 1, 0),
    borrowing: fc.integer({ min: 0, max: 1 }),
  })
  .map(({ clusters, q, star, borrowing }) =>
    fleetShape(
      clusters.map(({ powerWatts, coolingWatts, ...rest }) => ({
        ...rest,
        ...(powerWatts !== undefined && { powerWatts }),
        ...(coolingWatts !== undefined && { coolingWatts }),
      })),
      [
        { id: "q", quota: { H100: q }, borrowing },
        { id: "star", quota: { "*": star, A100: 1 }, borrowing },
      ],
    ),
  );

/** What a request asks for; keys and times come on top. */
export const wishes: fc.Arbitrary<RequestSpec> = fc
  .record({
    gpus: fc.constantFrom(1, 2, 3, 1, 2, 1, 5),
    shrink: fc.integer({ min: 0, max: 4 }),
    shapes: maybe(fc.uniqueArray(fc.integer({ min: 1, max: 7 }), { maxLength: 3 })),
    timeoutMs: fc.constantFrom(0, 10, 50),
    tenant: fc.constantFrom(...TENANTS),
    priority: fc.constantFrom(0, 0, 0, 5, -5),
    jurisdictions: maybe(fc.constantFrom([...JURISDICTIONS], ["EU"], ["US"], [])),
    clusters: maybe(
      fc
        .constantFrom(["c0"], ["c0", "c1"], ["c1", "c0"], ["c1"])
        .map((names) => names.map(clusterId)),
    ),
    gpuTypes: maybe(fc.subarray([...TYPES], { minLength: 1 })),
    gpuMemoryGiB: maybe(fc.constantFrom(40, 40, 41, 80)),
    maxClusters: maybe(fc.integer({ min: 1, max: 3 })),
    isSameHost: fc.constantFrom(false, false, true),
    isSameFabric: fc.constantFrom(false, false, false, true),
    avoid: maybe(fc.constantFrom(["c0/h0"], ["c0/h1"], ["c1/h0", "c0/h0"])),
  })
  .map(({ gpus, shrink, shapes, timeoutMs, tenant, priority, avoid, gpuMemoryGiB, ...rest }) => ({
    gpus,
    tenant,
    priority,
    gang: {
      min: Math.max(1, gpus - shrink),
      timeoutMs: ms(timeoutMs),
      ...(shapes !== undefined && { shapes }),
    },
    constraints: {
      isSameHost: rest.isSameHost,
      isSameFabric: rest.isSameFabric,
      ...(rest.jurisdictions !== undefined && { jurisdictions: rest.jurisdictions }),
      ...(rest.clusters !== undefined && { clusters: rest.clusters }),
      ...(rest.gpuTypes !== undefined && { gpuTypes: rest.gpuTypes }),
      ...(gpuMemoryGiB !== undefined && { gpuMemoryGiB: gib(gpuMemoryGiB) }),
      ...(rest.maxClusters !== undefined && { maxClusters: rest.maxClusters }),
    },
    ...(avoid !== undefined && { avoidHosts: avoid.map(host) }),
  }));

/** Requests of few jobs in few runs, so that copies, retries and newer runs meet. */
export const requests: fc.Arbitrary<GangRequest> = fc
  .record({
    settings: wishes,
    job: fc.constantFrom(...JOBS),
    run: fc.integer({ min: 1, max: 2 }),
    seq: fc.integer({ min: 1, max: 3 }),
    submittedAtMs: fc.integer({ min: 0, max: 20 }),
    slots: maybe(fc.constantFrom(3, 1, 2, 7, 0)),
  })
  .map(({ settings, job, run, seq, submittedAtMs, slots }) =>
    gangRequest({
      ...settings,
      ...(slots !== undefined && { slots }),
      job,
      run: `${job}-run${run}`,
      seq,
      submittedAtMs,
      requestedAtMs: submittedAtMs + 20 * run + seq,
    }),
  );

export function entries(shape: FleetShape): fc.Arbitrary<InboxEntry> {
  const hosts = fc.subarray([...hostNames(shape), "c9/h9"]);
  const epochs = fc.constantFrom("e1", "e2", "e3");
  const tokens = fc.integer({ min: 1, max: 12 });
  return fc.oneof(
    { weight: 6, arbitrary: requests.map((request) => ({ kind: "request", request }) as const) },
    {
      weight: 4,
      arbitrary: fc
        .record({ of: requests, unconfirmed: hosts })
        .map(({ of: { jobId, runId, seq }, unconfirmed }) => ({
          kind: "end" as const,
          jobId,
          runId,
          seq,
          unconfirmedHosts: unconfirmed.map(host),
        })),
    },
    {
      weight: 2,
      arbitrary: fc
        .record({
          hosts,
          epoch: epochs,
          running: fc.array(fc.tuple(fc.constantFrom(...hostNames(shape)), tokens), {
            maxLength: 3,
          }),
          highestToken: fc.integer({ min: 0, max: 15 }),
        })
        .map(({ hosts: names, ...rest }) => hello(names, rest)),
    },
    {
      weight: 1,
      arbitrary: fc.record({ hosts, epoch: epochs }).map(({ hosts: names, epoch }) => ({
        kind: "agent-deregistered" as const,
        hosts: names.map(host),
        epoch,
      })),
    },
    {
      weight: 3,
      arbitrary: fc.record({ hosts, number: tokens }).map(({ hosts: names, number }) => ({
        kind: "vacated" as const,
        lease: leaseId(token(number)),
        hosts: names.map(host),
      })),
    },
  );
}
