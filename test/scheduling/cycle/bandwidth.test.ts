/** @file Every decision that puts a gang anywhere looks at bandwidth: grants over types and clusters, reservations, evictions, starts, what-if. */
import { describe, expect, test } from "vitest";
import type { BandwidthPredictor, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { gpuCountOf, popCount, type HostGpus } from "../../../domain/lease/lease.ts";
import type { Plan } from "../../../domain/lease/plan.ts";
import { clusterId, jobId, runId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { NOT_TAKEN } from "../../../scheduling/admission/bandwidth-notes.ts";
import { openBandwidth } from "../../../scheduling/cycle/bandwidth.ts";
import type { DecidePorts } from "../../../scheduling/cycle/cycle.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { whatIf } from "../../../scheduling/explain/what-if.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  ask,
  fleetShape,
  gangRequest,
  gpus,
  inbox,
  leased,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

const NOW_MS = 600_000;

/** GB/s by type inside a host; over hosts 20 for each GPU of the host that has the fewest, and never more than inside. */
const INSIDE: Readonly<Record<string, number>> = { A800: 150, H100: 200, "4090": 15 };

function portsOf({ clusters }: FleetShape, inside = INSIDE): DecidePorts {
  const predictors = new Map(
    clusters.map(({ id, hosts }): [string, BandwidthPredictor] => {
      const gbsOf = (host: number): number => inside[hosts[host]?.gpuType ?? ""] ?? 0;
      const predicted = (shares: Candidate): number => {
        const slowest = Math.min(...shares.map(({ host }) => gbsOf(host)));
        return shares.length === 1
          ? slowest
          : Math.min(slowest, 20 * Math.min(...shares.map(({ mask }) => popCount(mask))));
      };
      const domain = {
        hosts: hosts.map(({ id: host, gpuCount, gpuType }) => ({ id: host, gpuCount, gpuType })),
        intraGbs: (host: number, mask: number) => (popCount(mask) === 1 ? Infinity : gbsOf(host)),
      };
      return [id, { version: "v1", domain, predict: (all) => all.map(predicted) }];
    }),
  );
  return { predictorOf: (cluster) => predictors.get(cluster) };
}

type Held = readonly [job: string, parts: readonly HostGpus[], spec?: RequestSpec];

function busy(
  shape: FleetShape,
  held: readonly Held[],
  waiting: readonly RequestSpec[] = [],
): Ledger {
  let ledger = readyLedger(shape);
  for (const [job, parts, spec = {}] of held)
    ledger = leased(ledger, { job, gpus: gpuCountOf(parts), ...spec }, parts);
  return inbox(ledger, waiting.map(ask), NOW_MS).ledger;
}

const granted = ({ items }: Plan, job = "a"): Plan["items"][number] | undefined =>
  items.find(({ request }) => request.jobId === job);
const hostsOf = (parts: readonly HostGpus[] = []): readonly string[] =>
  parts.map(({ host }) => host);

const MIXED = fleetShape([{ hosts: [{ type: "4090" }, { type: "A800" }] }]);

describe("a gang of 4 that may have any type", () => {
  test("gets the fast type, and the note says what the compact choice would have had", () => {
    const ledger = busy(MIXED, [], [{ gpus: 4 }]);
    expect(hostsOf(granted(decide(ledger, NOW_MS))?.gpus)).toEqual(["c0/h0"]);
    const item = granted(decide(ledger, NOW_MS, portsOf(MIXED)));
    expect(hostsOf(item?.gpus)).toEqual(["c0/h1"]);
    expect(item?.bandwidth).toEqual({
      predictedGbs: 150,
      bestGbs: 150,
      compactGbs: 15,
      model: "table",
      method: "searched",
    });
  });

  test("gets the faster of two clusters, but not for a lead within the error", () => {
    const two = fleetShape([{ hosts: [{ type: "4090" }] }, { hosts: [{ type: "A800" }] }]);
    const ledger = busy(two, [], [{ gpus: 4 }]);
    expect(hostsOf(granted(decide(ledger, NOW_MS, portsOf(two)))?.gpus)).toEqual(["c1/h0"]);
    const alike = portsOf(two, { "4090": 149, A800: 150 });
    const item = granted(decide(ledger, NOW_MS, alike));
    expect(hostsOf(item?.gpus)).toEqual(["c0/h0"]);
    expect(item?.bandwidth).toMatchObject({ bestGbs: 150, fallback: NOT_TAKEN.elsewhere });
  });

  test("keeps its own types", () => {
    const ledger = busy(MIXED, [], [{ gpus: 4, constraints: { gpuTypes: ["4090"] } }]);
    const item = granted(decide(ledger, NOW_MS, portsOf(MIXED)));
    expect(hostsOf(item?.gpus)).toEqual(["c0/h0"]);
    expect(item?.bandwidth).toMatchObject({ predictedGbs: 15, bestGbs: 15 });
  });
});

test.each<{
  readonly name: string;
  readonly shape: FleetShape;
  readonly spec: RequestSpec;
  readonly reserved?: readonly HostGpus[];
  readonly want: string;
}>([
  {
    name: "reserved for another job",
    shape: MIXED,
    spec: { gpus: 4 },
    reserved: gpus(["c0/h1", 0xff]),
    want: NOT_TAKEN.reserved,
  },
  {
    name: "beyond the quota",
    shape: { ...MIXED, tenants: fleetShape([], [{ id: "t", quota: { A800: 2 } }]).tenants },
    spec: { gpus: 4 },
    want: NOT_TAKEN.quota,
  },
])("the best that is $name is named, with the reason", ({ shape, spec, reserved, want }) => {
  const ledger = busy(shape, [], [spec, ...(reserved ? [{ job: "head", gpus: 16 }] : [])]);
  const withHead: Ledger =
    reserved === undefined
      ? ledger
      : {
          ...ledger,
          reservations: new Map([
            [
              jobId("head"),
              { jobId: jobId("head"), gpus: reserved, kind: "preemption", sinceMs: NOW_MS },
            ],
          ]),
        };
  const item = granted(decide(withHead, NOW_MS, portsOf(shape)));
  expect(hostsOf(item?.gpus)).toEqual(["c0/h0"]);
  expect(item?.bandwidth).toMatchObject({ predictedGbs: 15, bestGbs: 150, fallback: want });
});

const TWO = fleetShape([{ hosts: [{}, {}] }]);
const BOTH_SIXES = [0, 1].map((at): Held => [
  `run${String(at)}`,
  gpus([`c0/h${String(at)}`, 0b11000000]),
  { preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) } },
]);
/** An interactive gang is no rigid training: it takes any place. */
const EIGHT: RequestSpec = { gpus: 8, class: "interactive", requestedAtMs: NOW_MS };
const counts = (parts: readonly HostGpus[] = []): readonly number[] =>
  parts.map(({ mask }) => popCount(mask)).sort();

test("a gang that waits for leases to end reserves balanced GPUs", () => {
  const soon: RequestSpec = {
    timeLimitMs: ms(NOW_MS + 60_000),
    preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) },
  };
  const held: readonly Held[] = [
    ...BOTH_SIXES,
    ["short0", gpus(["c0/h0", 0b00111111]), soon],
    ["short1", gpus(["c0/h1", 0b00111111]), soon],
  ];
  const ledger = busy(TWO, held, [EIGHT]);
  const placeBy = (ports: DecidePorts): readonly number[] =>
    counts(decide(ledger, NOW_MS, ports).reserve?.find((each) => each.jobId === "a")?.gpus);
  expect(placeBy({})).toEqual([2, 6]);
  expect(placeBy(portsOf(TWO))).toEqual([4, 4]);
});

test("a gang that preempts reserves balanced GPUs among those that the same victims give up", () => {
  const held: readonly Held[] = [
    ...BOTH_SIXES,
    ["old0", gpus(["c0/h0", 0b00111111])],
    ["old1", gpus(["c0/h1", 0b00111111])],
  ];
  const infer: RequestSpec = { ...EIGHT, class: "inference" };
  const ledger = busy(TWO, held, [infer]);
  const planBy = (ports: DecidePorts): Plan => decide(ledger, NOW_MS, ports);
  const placeOf = ({ reserve }: Plan): readonly number[] =>
    counts(reserve?.find((each) => each.jobId === "a" && each.kind === "preemption")?.gpus);
  const [plain, ours] = [planBy({}), planBy(portsOf(TWO))];
  expect(placeOf(plain)).toEqual([2, 6]);
  expect(placeOf(ours)).toEqual([4, 4]);
  const victims = ({ evict = [] }: Plan): readonly string[] => evict.map(({ lease }) => lease);
  expect(victims(ours)).toEqual(victims(plain));
});

test("a job whose reserved GPUs are free starts on faster ones that are free by now, if they are for nobody else", () => {
  const ledger = busy(MIXED, [], [{ gpus: 4 }]);
  const own = gpus(["c0/h0", 0b1111]);
  const withOwn: Ledger = {
    ...ledger,
    reservations: new Map([
      [jobId("a"), { jobId: jobId("a"), gpus: own, kind: "backfill", sinceMs: 0 }],
    ]),
  };
  expect(granted(decide(withOwn, NOW_MS))?.gpus).toEqual(own);
  const item = granted(decide(withOwn, NOW_MS, portsOf(MIXED)));
  expect(hostsOf(item?.gpus)).toEqual(["c0/h1"]);
  expect(item?.reason).toContain("faster GPUs");
  const slow = portsOf(MIXED, { "4090": 150, A800: 150.5 });
  expect(granted(decide(withOwn, NOW_MS, slow))?.gpus).toEqual(own);
});

test("a what-if says what the models expect", () => {
  const request = { ...gangRequest({ gpus: 4 }), runId: runId("r") };
  const answer = whatIf(readyLedger(MIXED), request, { nowMs: NOW_MS, ports: portsOf(MIXED) });
  expect(answer).toMatchObject({ kind: "starts", bandwidth: { predictedGbs: 150 } });
});

test("what is held for later takes a part of the searches of a cycle, and starts may have the rest", () => {
  const ports = portsOf(TWO);
  const bandwidth = openBandwidth(ports, { leases: new Map(), granted: [] });
  const c0 = clusterId("c0");
  bandwidth?.planning.spend?.(1_500);
  expect(() => bandwidth?.planning.predictorOf(c0)).toThrow("used up");
  expect(bandwidth?.starting.predictorOf(c0)).toBeDefined();
  bandwidth?.starting.spend?.(1e6);
  expect(() => bandwidth?.starting.predictorOf(c0)).toThrow("used up");
});
