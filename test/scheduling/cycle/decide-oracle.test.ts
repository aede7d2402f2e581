/** @file What decide says about one request, against an enumeration of every possible grant; and about a second one behind it. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { PendingCode } from "../../../domain/values/codes.ts";
import { jobId, leaseId, runId, tenantId, token, type JobId } from "../../../domain/values/ids.ts";
import type { GangRequest, HostGpus, Lease } from "../../../domain/lease/lease.ts";
import type { Plan, PlanItem } from "../../../domain/lease/plan.ts";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import { decide, DECIDE_POLICIES } from "../../../scheduling/cycle/decide.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import { fifo } from "../../../scheduling/queue/fifo.ts";
import { ms } from "../../../domain/values/units.ts";
import { fleets, wishes } from "../arbitraries.ts";
import {
  applyPlan,
  fleetShape,
  gangRequest,
  host,
  hostNames,
  inbox,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";
import {
  brokenRules,
  findGrants,
  sizeOf,
  worthOf,
  worthwhile,
  type World,
} from "../grant-oracle.ts";

/** Gangs take any place, compact or not: compact-places.test.ts has the rule for those that wait. */
const ANY_PLACE = { ...DECIDE_POLICIES, place: leastSpread };

/** A fleet that others use already, and two wishes that come to it. */
const situations = fleets.chain((shape) =>
  fc.record({
    shape: fc.constant(shape),
    others: fc.array(wishes, { maxLength: 3, size: "max" }),
    down: fc.oneof({ weight: 2, arbitrary: fc.constant([]) }, fc.subarray([...hostNames(shape)])),
    broken: fc.oneof(
      { weight: 2, arbitrary: fc.constant([]) },
      fc.array(fc.tuple(fc.constantFrom(...hostNames(shape)), fc.integer({ min: 1, max: 7 }))),
    ),
    first: wishes,
    second: fc.oneof(wishes, fc.constant({ gpus: 1 })),
    nowMs: fc.constantFrom(0, 10, 60),
  }),
);

interface Situation {
  readonly down: readonly string[];
  /** Drained GPUs. */
  readonly broken: readonly (readonly [host: string, mask: number])[];
}

function used(
  shape: Parameters<typeof readyLedger>[0],
  others: readonly RequestSpec[],
  { down = [], broken = [] }: Partial<Pick<Situation, "down" | "broken">>,
  running: readonly RequestSpec[] = [],
): Ledger {
  let ledger = readyLedger(shape);
  running.forEach((other, at) => {
    const { ledger: asked } = inbox(ledger, [
      { kind: "request", request: gangRequest({ ...other, job: `running${at}` }) },
    ]);
    ledger = applyPlan(asked, decide(asked, 100), 100).ledger;
  });
  others.forEach((other, at) => {
    const { ledger: asked } = inbox(ledger, [
      { kind: "request", request: gangRequest({ ...other, job: `other${at}` }) },
    ]);
    ledger = applyPlan(asked, decide(asked, 100), 100).ledger;
  });
  const ends = [...ledger.requests.values()].map(({ jobId: job, runId, seq }) => ({
    kind: "end",
    jobId: job,
    runId,
    seq,
    unconfirmedHosts: [],
  }));
  const { ledger: quiet } = inbox(ledger, ends);
  const reason = "test";
  const some = apply(quiet, { kind: "drain", hosts: down.map(host), reason, nowMs: 0 }).ledger;
  const parts = broken.map(([name, mask]) => ({ host: host(name), mask }));
  return apply(some, { kind: "drain-gpus", gpus: parts, reason, nowMs: 0 }).ledger;
}

/** The law of nominate.ts, by enumeration. */
function wantedCode(request: GangRequest, world: World): PendingCode | "grant" {
  const fits = (...without: NonNullable<World["without"]>): boolean => {
    const grants = findGrants(request, { ...world, without });
    return (without.includes("leases") ? grants : worthwhile(grants, request, world)).length > 0;
  };
  if (fits()) return "grant";
  if (!fits("leases", "standings", "quota", "clock")) return "NoMatchingFlavor";
  if (!fits("leases", "standings", "clock")) return "ExceedsMaxQuota";
  if (!fits("leases")) {
    return !fits("leases", "standings") && fits("leases", "clock")
      ? "WaitingForGpus"
      : "WaitingForHosts";
  }
  if (!fitsIdleInRoom(request, world)) return "WaitingForQuota";
  if (fits("watts")) return "WaitingForPower";
  const isScattered = findGrants(loosened(request), { ...world, without: ["watts"] }).some(
    isOfOneType(world.ledger),
  );
  return isScattered ? "TopologyPlacementFailed" : "WaitingForGpus";
}

/** A grant on the hosts that answer, were they idle, within what the tenant's leases leave of its quota. */
const fitsIdleInRoom = (request: GangRequest, world: World): boolean =>
  findGrants(request, { ...world, without: ["leases"] }).some(
    (gpus) => !brokenRules(request, gpus, world).includes("quota"),
  );

const loosened = (request: GangRequest): GangRequest => ({
  ...request,
  constraints: { ...request.constraints, maxClusters: 99, isSameHost: false, isSameFabric: false },
});

const isOfOneType =
  (ledger: Ledger) =>
  (gpus: PlanItem["gpus"]): boolean =>
    new Set(
      gpus.map(
        (part) =>
          ledger.shape.clusters.flatMap(({ hosts }) => hosts).find(({ id }) => id === part.host)
            ?.gpuType,
      ),
    ).size === 1;

interface Answer {
  readonly code: PendingCode | "grant";
  readonly item?: PlanItem;
}

function answerOf(ledger: Ledger, job: JobId, nowMs: number): Answer {
  return answerIn(decide(ledger, nowMs), job);
}

function answerIn({ items, pending }: Plan, job: JobId): Answer {
  const item = items.find(({ request }) => request.jobId === job);
  if (item !== undefined) return { code: "grant", item };
  const reason = pending.find(({ request }) => request.jobId === job)?.reason;
  if (reason === undefined) throw new Error(`no word about ${job}`);
  return { code: reason.code };
}

describe("one request", () => {
  test("is granted when any grant is worth it, at the size that makes most progress, else it waits by the right code", () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(situations, ({ shape, others, down, broken, first, nowMs }) => {
        const request = gangRequest({ ...first, job: "a" });
        const { ledger } = inbox(used(shape, others, { down, broken }), [
          { kind: "request", request },
        ]);
        const { code, item } = answerOf(ledger, request.jobId, nowMs);
        const want = wantedCode(request, { ledger, nowMs });
        seen.set(want, (seen.get(want) ?? 0) + 1);
        expect(code).toBe(want);
        if (item === undefined) return;
        expectMost(item, request, { ledger, nowMs });
      }),
      { numRuns: 600, seed: 7 },
    );
    // The draw is worth something only if it meets every answer.
    expect([...seen.keys()].sort()).toEqual(
      [
        "ExceedsMaxQuota",
        "NoMatchingFlavor",
        "TopologyPlacementFailed",
        "WaitingForGpus",
        "WaitingForHosts",
        "WaitingForPower",
        "WaitingForQuota",
        "grant",
      ].sort(),
    );
  });
});

/** Its size is worth the most of all that may be granted; of equals, the largest. */
function expectMost({ gpus }: PlanItem, request: GangRequest, world: World): void {
  const grants = worthwhile(findGrants(request, world), request, world);
  const most = Math.max(...grants.map((grant) => worthOf(grant, world)));
  expect(worthOf(gpus, world)).toBeCloseTo(most, 9);
  const best = grants.filter((grant) => worthOf(grant, world) > most - 1e-9);
  expect(sizeOf(gpus)).toBe(Math.max(...best.map(sizeOf)));
}

describe("a gang over several sites that accepts less", () => {
  test("gets the size that makes most progress, which is not always the largest, or waits for one", () => {
    const seen = new Map<string, number>();
    const sites = fc.array(fc.array(fc.constantFrom(2, 2, 3), { minLength: 1, maxLength: 2 }), {
      minLength: 2,
      maxLength: 3,
    });
    const gangs = fc
      .integer({ min: 3, max: 9 })
      .chain((gpus) =>
        fc.record({ gpus: fc.constant(gpus), min: fc.integer({ min: 1, max: gpus }) }),
      );
    const others = fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 3 });
    fc.assert(
      fc.property(sites, gangs, others, (clusters, { gpus, min }, busy) => {
        const shape = fleetShape(
          clusters.map((hosts) => ({ hosts: hosts.map((count) => ({ gpus: count })) })),
        );
        const request = gangRequest({
          job: "a",
          gpus,
          gang: { min, timeoutMs: ms(0) },
          constraints: { maxClusters: 3 },
        });
        const taken = busy.map((count) => ({ gpus: count }));
        const { ledger } = inbox(used(shape, [], {}, taken), [{ kind: "request", request }]);
        const world = { ledger, nowMs: 200 };
        const { item } = answerIn(
          decide(ledger, world.nowMs, {}, { policies: ANY_PLACE }),
          request.jobId,
        );
        const grants = findGrants(request, world);
        const able = worthwhile(grants, request, world);
        expect(item !== undefined).toBe(able.length > 0);
        if (item !== undefined) expectMost(item, request, world);
        const isLargest = item && sizeOf(item.gpus) === Math.max(...grants.map(sizeOf));
        const word =
          item === undefined
            ? grants.length > 0
              ? "waits for better"
              : "waits"
            : isLargest
              ? "largest"
              : "smaller";
        seen.set(word, (seen.get(word) ?? 0) + 1);
      }),
      { numRuns: 100, seed: 5 },
    );
    expect([...seen.keys()].sort()).toEqual(["largest", "smaller", "waits", "waits for better"]);
  });
});

describe("a second request of another tenant, behind one that waits", () => {
  test("starts exactly when a grant exists outside of the reservation of the first one", () => {
    const seen = new Map<string, number>();
    fc.assert(
      fc.property(situations, ({ shape, others, down, broken, first, second, nowMs }) => {
        const a = gangRequest({ ...first, priority: 0, job: "a", submittedAtMs: 0 });
        const b = gangRequest({
          ...second,
          priority: 0,
          job: "b",
          submittedAtMs: 1,
          tenant: "no-other",
        });
        const { ledger } = inbox(
          used(shape, others, { down, broken }),
          [a, b].map((request) => ({ kind: "request", request })),
        );
        const policies = { ...ANY_PLACE, queue: fifo };
        const plan = decide(ledger, nowMs, {}, { policies });
        fc.pre(!plan.items.some(({ request }) => request.jobId === a.jobId));
        const closed = (plan.reserve ?? []).flatMap(({ jobId: job, gpus }) =>
          job === a.jobId ? gpus : [],
        );
        const isOpen = isOutside(b, closed, { ledger, nowMs });
        const isFree =
          worthwhile(findGrants(b, { ledger, nowMs }), b, { ledger, nowMs }).length > 0;
        const { code } = answerIn(plan, b.jobId);
        seen.set(code, (seen.get(code) ?? 0) + 1);
        expect(code === "grant").toBe(isOpen);
        if (closed.length === 0 || !isFree || isOpen) return;
        expect(code).toBe("BehindEarlierJob");
      }),
      { numRuns: 600, seed: 11 },
    );
    expect(seen.get("BehindEarlierJob")).toBeGreaterThan(0);
    expect(seen.get("grant")).toBeGreaterThan(20);
  });
});

/** Whether the request fits beside the reserved GPUs and their watts: as if a lease had the free ones of them. */
function isOutside(request: GangRequest, closed: readonly HostGpus[], world: World): boolean {
  const { ledger } = world;
  const leased = [...ledger.leases.values()].flatMap((lease) => lease.gpus);
  const kept = closed.flatMap((part) => {
    const mask = leased.reduce(
      (rest, other) => (other.host === part.host ? rest & ~other.mask : rest),
      part.mask,
    );
    return mask === 0 ? [] : [{ host: part.host, mask }];
  });
  if (kept.length === 0) return worthwhile(findGrants(request, world), request, world).length > 0;
  const id = leaseId(token(ledger.nextToken));
  const stand: Lease = {
    id,
    token: token(ledger.nextToken),
    jobId: jobId("kept"),
    runId: runId("kept-run1"),
    seq: 1,
    class: "training",
    tenant: tenantId("kept"),
    gpus: kept,
    grantedAtMs: 0,
    requestedAtMs: 0,
    state: "held",
  };
  const leases = new Map([...ledger.leases, [id, stand]]);
  const after = { ...world, ledger: { ...ledger, leases } };
  return worthwhile(findGrants(request, after), request, after).length > 0;
}
