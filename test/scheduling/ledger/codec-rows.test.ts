/** @file Rows of requests, hosts, grants and reasons: each field survives packing, JSON and unpacking, and alike ones are written once. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { HostStatus, Ledger } from "../../../scheduling/ledger/ledger.ts";
import { fleetShape, gangRequest, host, readyLedger } from "../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
const roundTrip = (ledger: Ledger): Ledger =>
  unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as ReturnType<typeof packLedger>);
const maybe = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined });

const requests = fc
  .array(
    fc.record({
      tenant: fc.constantFrom("t", "u"),
      jobClass: fc.constantFrom("training" as const, "inference" as const),
      priority: fc.integer({ min: -2, max: 2 }),
      gpus: fc.integer({ min: 1, max: 64 }),
      shapes: maybe(fc.constant([1, 2])),
      submittedAtMs: fc.double({ min: 0, max: 1e12, noNaN: true }),
      requestedAtMs: fc.double({ min: 0, max: 1e12, noNaN: true }),
      timeLimitMs: maybe(fc.integer({ min: 1, max: 1e9 })),
      patienceMs: maybe(fc.integer({ min: 1, max: 1e9 })),
      slots: maybe(fc.integer({ min: 1, max: 99 })),
      avoidHosts: maybe(fc.subarray([host("c0/h0"), host("c0/h1")])),
      prefer: maybe(fc.constantFrom("latency" as const, "price" as const)),
      bytes: maybe(fc.constantFrom(2 ** 20, 2 ** 31)),
      label: maybe(fc.constant("x")),
      isNamed: fc.boolean(),
    }),
    { maxLength: 6 },
  )
  .map((drawn) =>
    drawn.map((of, at): PendingRequest => ({
      ...gangRequest({
        job: `j${at}`,
        tenant: of.tenant,
        class: of.jobClass,
        priority: of.priority,
        gang: { gpus: of.gpus, min: 1, ...(of.shapes && { shapes: of.shapes }) },
        submittedAtMs: of.submittedAtMs,
        requestedAtMs: of.requestedAtMs,
        constraints: {
          ...(of.prefer && { prefer: of.prefer }),
          ...(of.bytes && { messages: { collective: "alltoall" as const, bytes: of.bytes } }),
          ...(of.label !== undefined && { antiAffinity: of.label }),
        },
        ...(of.isNamed && { name: "a name of its own" }),
        ...(of.timeLimitMs !== undefined && { timeLimitMs: ms(of.timeLimitMs) }),
        ...(of.patienceMs !== undefined && { patienceMs: ms(of.patienceMs) }),
        ...(of.slots !== undefined && { slots: of.slots }),
        ...(of.avoidHosts !== undefined && { avoidHosts: of.avoidHosts }),
      }),
      arrival: at + 1,
    })),
  );

test("requests come back as they were, in their order", () => {
  fc.assert(
    fc.property(requests, (waiting) => {
      const ledger = { ...READY, requests: new Map(waiting.map((each) => [each.jobId, each])) };
      expect([...roundTrip(ledger).requests]).toEqual([...ledger.requests]);
    }),
  );
});

test("a hundred alike requests share one profile", () => {
  const waiting = Array.from({ length: 100 }, (_, at) => ({
    ...gangRequest({ job: `j${at}`, constraints: { jurisdictions: ["EU", "US"] } }),
    arrival: at + 1,
  }));
  const ledger = { ...READY, requests: new Map(waiting.map((each) => [each.jobId, each])) };
  const text = JSON.stringify(packLedger(ledger));
  expect(text.split('"EU","US"')).toHaveLength(2);
});

const AGENT = {
  epoch: "0f3c6a52-1111-4222-8333-444455556666",
  runQueue: "r",
  orderQueue: "o",
  address: "10.0.0.1",
};
test.each<{ readonly what: string; readonly status: HostStatus }>([
  { what: "without an agent", status: { isDrained: false } },
  { what: "drained with a reason", status: { agent: AGENT, isDrained: true, drainReason: "disk" } },
  {
    what: "silent since a time",
    status: { agent: AGENT, isDrained: false, silentSinceMs: 12.25 } as HostStatus,
  },
])("a host $what", ({ status }) => {
  const hosts = new Map(READY.hosts).set(host("c0/h1"), status);
  expect(roundTrip({ ...READY, hosts }).hosts).toEqual(hosts);
});

test("reasons of alike jobs name each job as their own", () => {
  const reason = (job: string) =>
    ({
      code: "TopologyPlacementFailed",
      message: `${job} needs 16 GPUs`,
      numbers: { needed: 16 },
      holders: [],
      wakeOn: ["lease-released"],
    }) as unknown as Ledger["reasons"] extends ReadonlyMap<unknown, infer Reason> ? Reason : never;
  const jobs = ["a", "b"].map((name) => jobId(name));
  const ledger: Ledger = {
    ...READY,
    requests: new Map(jobs.map((job, at) => [job, { ...gangRequest({ job }), arrival: at + 1 }])),
    reasons: new Map(jobs.map((job) => [job, reason(job)])),
  };
  expect([...roundTrip(ledger).reasons]).toEqual([...ledger.reasons]);
});
