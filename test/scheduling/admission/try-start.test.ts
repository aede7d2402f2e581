/** @file Starting one gang: what the policy is asked, and what becomes of its answer. */
import { describe, expect, test } from "vitest";
import type { HostGpus } from "../../../domain/lease/lease.ts";
import { clusterId } from "../../../domain/values/ids.ts";
import { gbps, ms } from "../../../domain/values/units.ts";
import { tryStart, type StartContext } from "../../../scheduling/admission/try-start.ts";
import { plainPlace } from "../../../scheduling/cycle/policy-sets.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import type { PlaceDemand, PlaceHost } from "../../../scheduling/placement/place-policy.ts";
import { openLinkGraph, openLoads } from "../../../scheduling/placement/link-graph.ts";
import { fleetShape, gpus, leased, readyLedger, type RequestSpec } from "../builders.ts";
import { reserved } from "../reservation/reservations.ts";
import { drained, pendingRequest, viewAt, withReservations } from "../views.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}, {}], powerWatts: 20_000 }]);
const READY = readyLedger(SHAPE);
/** Free: the upper half of h0, and of h1 all but two GPUs, which are reserved. */
const BUSY = drained(
  withReservations(
    leased(READY, { job: "run", gpus: 4 }, gpus(["c0/h0", 0x0f])),
    reserved("next", gpus(["c0/h1", 0b11])),
  ),
  "c0/h2",
);

function start(ledger: Ledger, spec: RequestSpec, change: Partial<StartContext> = {}) {
  const context = { snapshot: ledger, place: plainPlace, ports: {}, ...change };
  return tryStart(pendingRequest(spec), viewAt(ledger), context);
}

const SIX = gpus(["c0/h0", 0xf0], ["c0/h1", 0b1100]);
const answering = (parts?: readonly HostGpus[]): Pick<StartContext, "place"> => ({
  place: () => ({ ...(parts && { gpus: parts }), candidates: 7 }),
});

describe("a gang that can start", () => {
  test("is granted the GPUs that the policy chose, for its request", () => {
    expect(start(BUSY, { job: "a", gpus: 6, seq: 3 }, answering(SIX))).toMatchObject({
      kind: "grant",
      item: {
        kind: "grant",
        request: { jobId: "a", runId: "a-run1", seq: 3 },
        gpus: SIX,
        reason: "6 of 6 GPUs in c0: next in the queue",
      },
    });
  });

  test("is placed on GPUs that are free and reserved for no other job, and within the watts", () => {
    let asked: { demand: PlaceDemand; hosts: readonly PlaceHost[] } | undefined;
    start(
      BUSY,
      { gpus: 6 },
      {
        place: (demand, hosts) => {
          asked = { demand, hosts };
          return { candidates: 0 };
        },
      },
    );
    expect(asked?.hosts.map(({ at, freeMask }) => [at.host, freeMask])).toEqual([
      ["c0/h0", 0xf0],
      ["c0/h1", 0b1111_1100],
    ]);
    expect(asked?.demand).toMatchObject({ gpus: 6, isSameHost: false, maxClusters: 1 });
    const [first] = asked?.hosts ?? [];
    expect(first && asked?.demand.wattsLeft?.cluster?.(first.at)).toBeCloseTo(20_000 - 6 * 700, 2);
  });

  test("of an array is one gang of it", () => {
    const found = start(READY, { gpus: 2, slots: 5 });
    const reason = "1 of 5 gangs of 2 in c0: next in the queue";
    expect(found).toMatchObject({ kind: "grant", item: { slots: 1, reason } });
    expect(start(READY, { gpus: 2 })).not.toHaveProperty("item.slots");
  });

  test("has a predicted bandwidth on one host, if it was measured there", () => {
    const ports = { bandwidthOf: (_host: string, mask: number) => (mask === 0b11 ? 300 : NaN) };
    expect(start(READY, { gpus: 2 }, { ports })).toMatchObject({ item: { predictedGBs: 300 } });
    for (const count of [3, 12])
      expect(start(READY, { gpus: count }, { ports })).not.toHaveProperty("item.predictedGBs");
  });

  test("costs the work of the check and of the policy", () => {
    expect(start(READY, { gpus: 1 }, answering(gpus(["c0/h0", 1]))).work).toBe(2 + 7);
  });
});

describe("a gang that cannot start", () => {
  test("waits by the code of the check, and the policy is not asked", () => {
    const place = () => {
      throw new Error("was asked");
    };
    expect(start(BUSY, { gpus: 25 }, { place })).toMatchObject({ code: "NoMatchingFlavor" });
    expect(start(BUSY, { gpus: 11 }, { place })).toMatchObject({ code: "BehindEarlierJob" });
  });

  test("fails by its shape where the policy finds no place", () => {
    const want = { kind: "wait", code: "TopologyPlacementFailed", work: 9 };
    expect(start(READY, { gpus: 4 }, answering())).toEqual(want);
  });

  test.each<{ name: string; parts: readonly HostGpus[]; code: string }>([
    { name: "leased GPUs", parts: gpus(["c0/h0", 0b11]), code: "GpuTaken" },
    { name: "reserved GPUs", parts: gpus(["c0/h1", 0b11]), code: "GpuReserved" },
    { name: "a drained host", parts: gpus(["c0/h2", 0b11]), code: "HostUnavailable" },
    { name: "too few GPUs", parts: gpus(["c0/h0", 0x10]), code: "GangSizeWrong" },
  ])("is a bug where the policy chose $name", ({ parts, code }) => {
    expect(() => start(BUSY, { gpus: 2 }, answering(parts))).toThrow(code);
  });
});

test("a gang over two clusters is noted with the bandwidth between them", () => {
  const [from, to] = [clusterId("c0"), clusterId("c1")];
  const link = { from, to, bandwidthGbps: gbps(40), latencyMs: ms(10) };
  const graph = openLinkGraph([from, to], [link]);
  const links = { clustersOf: () => [0, 1], loaded: () => openLoads(graph) };
  const spec = { gpus: 16, constraints: { maxClusters: 2 } };
  const found = start(readyLedger(fleetShape([{}, {}])), spec, { links });
  expect(found).toMatchObject({
    item: { bandwidth: { method: "compact", links: { clusters: [from, to], bottleneckGbs: 5 } } },
  });
});
