/** @file Which grants are allowed: each rule alone, against a grant that keeps them all. */
import { describe, expect, test } from "vitest";
import type { HostGpus } from "../../../../domain/lease/lease.ts";
import type { HostStatus } from "../../../../scheduling/ledger/ledger.ts";
import {
  checkGrant,
  hostConditionOf,
  isAcceptableSize,
  isSuitable,
} from "../../../../scheduling/ledger/rules/grant-check.ts";
import { indexFleet } from "../../../../scheduling/ledger/rules/fleet-index.ts";
import { reservedOf } from "../../../../scheduling/ledger/rules/reservation-index.ts";
import { usageOf } from "../../../../scheduling/ledger/rules/usage.ts";
import {
  fleetShape,
  gangRequest,
  gpus,
  host,
  leased,
  readyLedger,
  type RequestSpec,
} from "../../builders.ts";
import { jobId } from "../../../../domain/values/ids.ts";

const SHAPE = fleetShape(
  [
    { hosts: [{}, {}, { type: "L4" }] },
    { hosts: [{}], jurisdiction: "US", hasFabric: false },
    { hosts: [{ memoryGiB: 40 }], powerWatts: 1_400 },
  ],
  [{ id: "t", quota: { H100: 12 } }],
);
const LEDGER = leased(
  readyLedger(SHAPE),
  { job: "held", tenant: "u", gpus: 4 },
  gpus(["c0/h0", 0xf0]),
);
const INDEX = indexFleet(SHAPE);

const codeOf = (spec: RequestSpec, parts: readonly HostGpus[], nowMs = 0): string | undefined =>
  checkGrant(
    gangRequest(spec),
    { gpus: parts },
    {
      index: INDEX,
      usage: usageOf(LEDGER.leases.values(), INDEX),
      hostStatuses: new Map(LEDGER.hosts).set(host("c0/h1"), {
        ...LEDGER.hosts.get(host("c0/h1")),
        isDrained: nowMs < 0,
      }),
      reserved: reservedOf([
        { jobId: jobId("r"), gpus: gpus(["c0/h1", 0x80]), kind: "preemption", sinceMs: 0 },
      ]),
      nowMs,
    },
  )?.code;

const FOUR = gpus(["c0/h0", 0x0f]);

describe("a grant of four GPUs", () => {
  test.each<{
    readonly what: string;
    readonly spec?: RequestSpec;
    readonly parts?: readonly HostGpus[];
    readonly nowMs?: number;
  }>([
    { what: "on one host" },
    { what: "over two hosts of a cluster", parts: gpus(["c0/h0", 3], ["c0/h1", 3]) },
    {
      what: "over two clusters that may span",
      parts: gpus(["c0/h0", 3], ["c1/h0", 3]),
      spec: { constraints: { maxClusters: 2 } },
    },
    { what: "of its own reservation", parts: gpus(["c0/h1", 0x87]), spec: { job: "r" } },
    { what: "of fewer after the gang timeout", spec: { gang: { gpus: 8, min: 4 } }, nowMs: 30_001 },
  ])("$what is allowed", ({ spec, parts = FOUR, nowMs }) => {
    expect(codeOf({ gpus: 4, ...spec }, parts, nowMs)).toBeUndefined();
  });

  test.each<{
    readonly what: string;
    readonly spec?: RequestSpec;
    readonly parts?: readonly HostGpus[];
    readonly nowMs?: number;
  }>([
    { what: "on an unknown host", parts: gpus(["c9/h0", 15]) },
    { what: "that names a host twice", parts: gpus(["c0/h0", 3], ["c0/h0", 12]) },
    { what: "of GPUs that are held", parts: gpus(["c0/h0", 0x1e]) },
    { what: "of GPUs that are reserved for another job", parts: gpus(["c0/h1", 0xf0]) },
    { what: "on a drained host", parts: gpus(["c0/h1", 15]), nowMs: -1 },
    { what: "of two GPU types", parts: gpus(["c0/h0", 3], ["c0/h2", 3]) },
    { what: "over two clusters that may not span", parts: gpus(["c0/h0", 3], ["c1/h0", 3]) },
    {
      what: "over two hosts of one that must be whole",
      parts: gpus(["c0/h0", 3], ["c0/h1", 3]),
      spec: { constraints: { isSameHost: true } },
    },
    {
      what: "in a cluster without the wanted fabric",
      parts: gpus(["c1/h0", 15]),
      spec: { constraints: { isSameFabric: true } },
    },
    {
      what: "in another jurisdiction",
      parts: gpus(["c1/h0", 15]),
      spec: { constraints: { jurisdictions: ["EU"] } },
    },
    { what: "above the power budget", parts: gpus(["c2/h0", 15]) },
    {
      what: "above the tenant's quota",
      spec: { gpus: 14 },
      parts: gpus(["c0/h0", 0x0f], ["c0/h1", 0x7f], ["c1/h0", 7]),
    },
    {
      what: "of fewer before the gang timeout",
      spec: { gang: { gpus: 8, min: 4 } },
      nowMs: 29_000,
    },
    { what: "of more than it asked for", spec: { gpus: 3 } },
  ])("$what is refused", ({ spec, parts = FOUR, nowMs }) => {
    expect(codeOf({ gpus: 4, ...spec }, parts, nowMs)).toBeDefined();
  });
});

test.each([
  { size: 8, shapes: undefined, want: true },
  { size: 5, shapes: undefined, want: true },
  { size: 3, shapes: undefined, want: false },
  { size: 9, shapes: undefined, want: false },
  { size: 4.5, shapes: undefined, want: false },
  { size: 6, shapes: [2, 6], want: true },
  { size: 5, shapes: [2, 6], want: false },
  { size: 2, shapes: [2, 6], want: false },
])("a gang of 8 with min 4 and shapes $shapes may be $size: $want", ({ size, shapes, want }) => {
  const { gang } = gangRequest({ gang: { gpus: 8, min: 4, ...(shapes && { shapes }) } });
  expect(isAcceptableSize(gang, size)).toBe(want);
});

test("hosts are suitable by type, memory, jurisdiction and name, whatever is free there", () => {
  const suits = (spec: RequestSpec): readonly string[] =>
    [...INDEX.places.values()]
      .filter((place) => isSuitable(gangRequest(spec), place))
      .map((place) => place.host.id);
  expect(suits({})).toHaveLength(5);
  expect(suits({ constraints: { gpuTypes: ["L4"] } })).toEqual(["c0/h2"]);
  expect(suits({ constraints: { jurisdictions: ["US"] } })).toEqual(["c1/h0"]);
  expect(suits({ constraints: { hosts: [host("c0/h1")] } })).toEqual(["c0/h1"]);
});

test("a host without an agent, a drained one and a ready one", () => {
  const ready = LEDGER.hosts.get(host("c0/h0"));
  const conditions = [undefined, { ...ready, isDrained: true } as HostStatus, ready].map(
    hostConditionOf,
  );
  expect(conditions).toEqual(["agentless", "drained", undefined]);
});
