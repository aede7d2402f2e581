/** @file Whether a request can start now: the size it gets, and the first code that holds where it cannot. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { gpuCountOf, popCount, type Reservation } from "../../../domain/lease/lease.ts";
import { PENDING_CODES } from "../../../domain/values/codes.ts";
import { jobId, tenantId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import {
  checkFeasibility,
  isHopeless,
  isServedInTurn,
  leastSizeNow,
  quotaDemand,
  waitOf,
  wakeAtOf,
  type CycleView,
  type WaitCode,
} from "../../../scheduling/admission/feasibility.ts";
import { claimQuota } from "../../../scheduling/admission/quota-claims.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  fleetShape,
  gpus,
  leased,
  readyLedger,
  type RequestSpec,
  type TenantSpec,
} from "../builders.ts";
import { reserved } from "../reservation/reservations.ts";
import { drained, pendingRequest, viewAt, withReservations } from "../views.ts";
import { caseCount } from "../../support/case-count.ts";

const TWO_HOSTS = [{}, {}];
const ready = (tenants: readonly TenantSpec[] = [], powerWatts?: number): Ledger =>
  readyLedger(
    fleetShape([{ hosts: TWO_HOSTS, ...(powerWatts !== undefined && { powerWatts }) }], tenants),
  );
const running = (ledger: Ledger, h0: number, h1: number, tenant = "other"): Ledger =>
  [gpus(["c0/h0", h0]), gpus(["c0/h1", h1])].reduce((before, parts, at) => {
    const count = gpuCountOf(parts);
    return count === 0 ? before : leased(before, { job: `run${at}`, tenant, gpus: count }, parts);
  }, ledger);
const FULL = 0xff;
const HALF = 0x0f;
const LIMITED = [{ id: "t", quota: { H100: 8 } }];
const SHRINKING = { gang: { min: 4, timeoutMs: ms(1_000) } };

const answer = (request: RequestSpec, view: CycleView, own?: Pick<Reservation, "kind">) => {
  const found = checkFeasibility(pendingRequest(request), view, own);
  return found.kind === "start" ? found.gpus : found.code;
};

describe("a request", () => {
  test.each<{
    name: string;
    ledger: Ledger;
    spec: RequestSpec;
    nowMs?: number;
    own?: Pick<Reservation, "kind">;
    want: number | WaitCode;
  }>([
    { name: "starts whole", ledger: ready(), spec: { gpus: 16 }, want: 16 },
    {
      name: "starts smaller after its gang timeout",
      ledger: running(ready(), FULL, 0b111),
      spec: { gpus: 8, ...SHRINKING },
      nowMs: 1_000,
      want: 5,
    },
    {
      name: "starts smaller where its tenant's quota allows no more",
      ledger: ready([{ id: "t", quota: { H100: 6 } }]),
      spec: { gpus: 8, ...SHRINKING },
      nowMs: 1_000,
      want: 6,
    },
    {
      name: "waits for the gang timeout first",
      ledger: running(ready(), FULL, 0b111),
      spec: { gpus: 8, ...SHRINKING },
      nowMs: 999,
      want: "WaitingForGpus",
    },
    {
      name: "is larger than the fleet",
      ledger: ready(),
      spec: { gpus: 17 },
      want: "NoMatchingFlavor",
    },
    {
      name: "asks for a type that the fleet does not have",
      ledger: ready(),
      spec: { constraints: { gpuTypes: ["A100"] } },
      want: "NoMatchingFlavor",
    },
    {
      name: "is larger than the fleet until its gang timeout",
      ledger: ready(),
      spec: { gpus: 17, ...SHRINKING },
      want: "WaitingForGpus",
    },
    {
      name: "is larger than the quota",
      ledger: ready(LIMITED),
      spec: { gpus: 9 },
      want: "ExceedsMaxQuota",
    },
    {
      name: "is larger than the hosts in service",
      ledger: drained(ready(), "c0/h1"),
      spec: { gpus: 9 },
      want: "WaitingForHosts",
    },
    {
      name: "is larger than the rest of the quota",
      ledger: running(ready(LIMITED), HALF, 0, "t"),
      spec: { gpus: 5 },
      want: "WaitingForQuota",
    },
    {
      name: "waits for the jobs that are evicted for it",
      ledger: running(ready(), FULL, FULL),
      spec: { gpus: 8 },
      own: { kind: "preemption" },
      want: "WaitingForPreempted",
    },
    {
      name: "waits behind reserved GPUs",
      ledger: withReservations(running(ready(), FULL, 0), reserved("next", gpus(["c0/h1", 1]))),
      spec: { gpus: 8 },
      want: "BehindEarlierJob",
    },
    {
      name: "waits for watts",
      ledger: running(ready([], 12 * 700), FULL, 0),
      spec: { gpus: 8 },
      want: "WaitingForPower",
    },
    {
      name: "waits for one host while enough GPUs are free on two",
      ledger: running(ready(), HALF, HALF),
      spec: { gpus: 8, constraints: { isSameHost: true } },
      want: "TopologyPlacementFailed",
    },
    {
      name: "waits for GPUs",
      ledger: running(ready(), FULL, HALF),
      spec: { gpus: 8 },
      want: "WaitingForGpus",
    },
  ])("$name: $want", ({ ledger, spec, nowMs = 0, own, want }) => {
    expect(answer(spec, viewAt(ledger, nowMs), own)).toBe(want);
  });

  test("waits for quota that earlier jobs of its tenant claim, other tenants do not", () => {
    const view = viewAt(ready(LIMITED));
    const earlier = { jobId: jobId("earlier"), tenant: tenantId("t") };
    claimQuota(view.claims, earlier, new Map([["H100", 6]]));
    expect(answer({ gpus: 3 }, view)).toBe("WaitingForQuota");
    expect(answer({ gpus: 2 }, view)).toBe(2);
    expect(answer({ gpus: 3, tenant: "u" }, view)).toBe(3);
  });

  test("of fixed size starts in one cluster exactly when so many GPUs are free there", () => {
    const byte = fc.nat(255);
    const sizes = fc.integer({ min: 1, max: 16 });
    fc.assert(
      fc.property(byte, byte, sizes, fc.boolean(), (h0, h1, size, isSameHost) => {
        const free = [h0, h1].map((mask) => 8 - popCount(mask));
        const most = isSameHost ? Math.max(...free) : free.reduce((sum, each) => sum + each, 0);
        const view = viewAt(running(ready(), h0, h1));
        const found = answer({ gpus: size, constraints: { isSameHost } }, view);
        expect(found === size).toBe(size <= most);
      }),
      { numRuns: caseCount(40) },
    );
  });
});

test("a start names the GPU types that can hold it", () => {
  const hosts = [{ type: "A100", gpus: 4 }, { type: "H100" }, { type: "L4" }];
  const found = checkFeasibility(
    pendingRequest({ gpus: 8 }),
    viewAt(readyLedger(fleetShape([{ hosts }]))),
  );
  const types = found.kind === "start" ? found.clusterFits.map(({ type }) => type.gpuType) : [];
  expect(types).toEqual(["H100", "L4"]);
});

test("a request that is known not to fit waits by the same code as one that is checked", () => {
  const view = viewAt(running(ready(), FULL, HALF));
  const request = pendingRequest({ gpus: 8 });
  expect(waitOf(request, view, { own: undefined })).toMatchObject({ code: "WaitingForGpus" });
  expect(waitOf(request, view, { own: { kind: "preemption" } }).code).toBe("WaitingForPreempted");
});

describe("codes", () => {
  test("that only another fleet, quota or job would change are hopeless", () => {
    const want = ["NoMatchingFlavor", "ExceedsMaxQuota"].sort();
    expect(PENDING_CODES.filter(isHopeless).sort()).toEqual(want);
  });

  test.each<{ code: WaitCode; want: boolean }>([
    { code: "WaitingForGpus", want: true },
    { code: "WaitingForPower", want: true },
    { code: "BehindEarlierJob", want: true },
    { code: "TopologyPlacementFailed", want: true },
    { code: "WaitingForQuota", want: false },
    { code: "WaitingForPreempted", want: false },
    { code: "WaitingForHosts", want: false },
    { code: "NoMatchingFlavor", want: false },
  ])("may reserve GPUs when the end of leases helps: $code $want", ({ code, want }) => {
    expect(isServedInTurn(code)).toBe(want);
  });
});

test("smaller sizes wake a request once, when they become acceptable", () => {
  const request = pendingRequest({ gpus: 8, requestedAtMs: 500, ...SHRINKING });
  expect(wakeAtOf(request, "WaitingForGpus", 1_499)).toBe(1_500);
  expect(wakeAtOf(request, "WaitingForGpus", 1_500)).toBe(Infinity);
  expect(wakeAtOf(request, "ExceedsMaxQuota", 0)).toBe(Infinity);
  expect(wakeAtOf(pendingRequest({ gpus: 8 }), "WaitingForGpus", 0)).toBe(Infinity);
  expect([leastSizeNow(request, 1_499), leastSizeNow(request, 1_500)]).toEqual([8, 4]);
});

test("a request claims of each quota the size that the fleet and the limit allow", () => {
  const hosts = [{}, { type: "A100", gpus: 4 }];
  const tenants = [{ id: "t", quota: { H100: 6, A100: 9 } }];
  const view = viewAt(readyLedger(fleetShape([{ hosts }], tenants)), 1_000);
  const demand = (spec: RequestSpec) => [...quotaDemand(pendingRequest(spec), view)];
  expect(demand({ gpus: 8, ...SHRINKING })).toEqual([
    ["H100", 6],
    ["A100", 4],
  ]);
  expect(demand({ gpus: 5 })).toEqual([["H100", 5]]);
  expect(demand({ gpus: 5, tenant: "without-quota" })).toEqual([]);
});
