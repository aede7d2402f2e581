/** @file Bounds on a search for victims: no choice of them that gives the request its GPUs loses less, and where there is none they say so. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { JOB_CLASSES } from "../../../domain/job/job.ts";
import { gpuCountOf, type HostGpus } from "../../../domain/lease/lease.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { fitsOf } from "../../../scheduling/admission/feasibility.ts";
import { noteReservation } from "../../../scheduling/capacity/capacity-changes.ts";
import { largestAt } from "../../../scheduling/capacity/capacity.ts";
import { tryOut } from "../../../scheduling/capacity/trial.ts";
import { leastLossFor, mayLieWithout } from "../../../scheduling/preemption/search-bounds.ts";
import { mayEvictBy, planPreemption } from "../../../scheduling/preemption/plan-preemption.ts";
import { plainPlace } from "../../../scheduling/cycle/policy-sets.ts";
import { lossOf } from "../../../scheduling/preemption/eviction-cost.ts";
import type { Victim } from "../../../scheduling/preemption/candidate-index.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { caseCount } from "../../support/case-count.ts";
import { fleetShape, gpus } from "../builders.ts";
import { requestOf } from "../cycle-parts.ts";
import { preemptFor, viewOf } from "../preempting.ts";
import { reserved } from "../reservation/reservations.ts";
import { withReservations } from "../views.ts";
import { busyLedger, NOW_MS, type Held } from "./victims.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}, {}] }]);

/** How many GPUs of each host a job has; the hosts have 8, and jobs take the lowest that are left. */
const jobs = fc.array(
  fc.record({
    parts: fc.array(fc.nat(4), { minLength: 3, maxLength: 3 }),
    graceMs: fc.constantFrom(undefined, 500, 30_000),
  }),
  { minLength: 1, maxLength: 5 },
);

function heldBy(drawn: readonly { parts: readonly number[]; graceMs?: number | undefined }[]) {
  const next = [0, 0, 0];
  return drawn.flatMap(({ parts, graceMs }, at): readonly Held[] => {
    const own = parts.flatMap((count, place): readonly HostGpus[] => {
      const from = next[place] ?? 0;
      const taken = Math.min(count, 8 - from);
      next[place] = from + taken;
      return taken === 0 ? [] : gpus([`c0/h${String(place)}`, ((1 << taken) - 1) << from]);
    });
    const checkpoint = graceMs === undefined ? {} : { checkpoint: { graceMs: ms(graceMs) } };
    return own.length === 0 ? [] : [[`held-${String(at)}`, own, checkpoint]];
  });
}

const asking = (held: readonly Held[], wanted: number): Ledger =>
  busyLedger(SHAPE, held, [{ job: "infer", class: "inference", gpus: wanted }]);

/** Of the job `infer`, over all leases. */
function boundOf(ledger: Ledger) {
  const { view, preemption } = viewOf(ledger, NOW_MS);
  const victims = [...preemption.victims.all.values()];
  const request = requestOf(ledger, "infer");
  const loss = ({ lease }: Victim): number => lossOf(lease, NOW_MS);
  const { capacity } = view;
  const least = leastLossFor(request, request.gang.gpus, { victims, lossOf: loss, capacity });
  return { least, victims, loss };
}

const subsetsOf = <T>(all: readonly T[]): readonly (readonly T[])[] =>
  all.reduce<readonly (readonly T[])[]>(
    (sets, each) => [...sets, ...sets.map((set) => [...set, each])],
    [[]],
  );

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, each) => sum + each, 0);

describe("the least loss of a search for victims", () => {
  test("is never above that of a choice of them that suffices, and infinite only where none does", () => {
    fc.assert(
      fc.property(jobs, fc.integer({ min: 1, max: 24 }), (drawn, wanted) => {
        const held = heldBy(drawn);
        const { least, victims, loss } = boundOf(asking(held, wanted));
        const free = 24 - sumOf(held.map(([, parts]) => gpuCountOf(parts)));
        const losses = subsetsOf(victims)
          .filter((set) => set.length > 0 && free + sumOf(set.map((each) => each.gpus)) >= wanted)
          .map((set) => sumOf(set.map(loss)));
        expect(least).toBeLessThanOrEqual(Math.min(Infinity, ...losses));
        expect(least === Infinity).toBe(losses.length === 0);
      }),
      { numRuns: caseCount(300) },
    );
  });

  test("is never above that of the plan that is found", () => {
    let plans = 0;
    fc.assert(
      fc.property(jobs, fc.integer({ min: 1, max: 12 }), (drawn, wanted) => {
        const ledger = asking(heldBy(drawn), wanted);
        const plan = preemptFor(ledger, "infer", NOW_MS);
        if (plan === undefined) return;
        plans += 1;
        const lost = sumOf(plan.evict.map(({ lostGpuSeconds }) => lostGpuSeconds));
        expect(boundOf(ledger).least).toBeLessThanOrEqual(lost);
      }),
      { numRuns: caseCount(300) },
    );
    expect(plans).toBeGreaterThan(0);
  });

  test("is not above a sum of large losses, in whatever order they are added", () => {
    const losses = [0.1, 0.3, 0.6, 0.9].map((each) => (each * 1e12) / 7);
    const held = losses.map((_, at): Held => [`held-${String(at)}`, gpus(["c0/h0", 1 << at])]);
    const { view, preemption } = viewOf(asking(held, 24), NOW_MS);
    const victims = [...preemption.victims.all.values()];
    const loss = (victim: Victim): number => losses[victims.indexOf(victim)] ?? 0;
    const bound = { victims, lossOf: loss, capacity: view.capacity };
    const least = leastLossFor(requestOf(asking(held, 24), "infer"), 24, bound);
    expect(least).toBeLessThanOrEqual(sumOf([...losses].reverse()));
  });

  /** Twelve GPUs in two leases, and 12 free ones that are reserved. */
  const BUSY: readonly Held[] = [
    ["old", gpus(["c0/h0", 0xff])],
    ["half", gpus(["c0/h1", 0x0f])],
  ];
  const REST = gpus(["c0/h1", 0xf0], ["c0/h2", 0xff]);

  test.each([
    { owner: "infer", wanted: 20, want: "finite" },
    { owner: "infer", wanted: 24, want: "finite" },
    { owner: "other", wanted: 12, want: "finite" },
    { owner: "other", wanted: 13, want: "infinite" },
  ])("counts the GPUs reserved for itself alone: $owner, $wanted", ({ owner, wanted, want }) => {
    const ledger = withReservations(asking(BUSY, wanted), reserved(owner, REST));
    expect(boundOf(ledger).least === Infinity ? "infinite" : "finite").toBe(want);
  });
});

describe("a place without some victims", () => {
  const clusters = fc.record({
    sites: fc.constantFrom(["a", "a"], ["a", "b"]),
    /** GPUs beyond those that are held. */
    quotaLeft: fc.option(fc.nat(8), { nil: undefined }),
    isPowerLimited: fc.boolean(),
    isReservedFor: fc.constantFrom("nobody", "infer", "other"),
    maxClusters: fc.constantFrom(1, 2),
    isShrinking: fc.boolean(),
  });

  /** As the search sees it: all victims and the request's own reservation are off the capacity. */
  function fitsWithout(ledger: Ledger, gone: number): { fits: boolean; may: boolean } {
    const { view, preemption } = viewOf(ledger, NOW_MS);
    const { capacity } = view;
    const victims = [...preemption.victims.all.values()].slice(0, gone);
    const request = requestOf(ledger, "infer");
    const wanted = request.gang.gpus;
    const may = mayLieWithout(request, wanted, { victims, view });
    const own = capacity.reserved.byJob.get(request.jobId);
    if (own !== undefined) noteReservation(capacity, own, undefined);
    const fits = tryOut(capacity, ({ removeLease }) => {
      for (const { lease } of victims) removeLease(lease);
      return fitsOf(request, view).some(
        ({ type, room }) => Math.min(largestAt(capacity, type, "now"), room) >= wanted,
      );
    });
    return { fits, may };
  }

  test("is never ruled out where counts without them allow one", () => {
    let fitting = 0;
    fc.assert(
      fc.property(
        jobs,
        clusters,
        fc.record({ wanted: fc.integer({ min: 1, max: 24 }), gone: fc.nat(5) }),
        (drawn, { sites, quotaLeft, isPowerLimited, ...terms }, { wanted, gone }) => {
          const { isReservedFor, maxClusters, isShrinking } = terms;
          const total = heldBy(drawn).reduce((sum, [, parts]) => sum + gpuCountOf(parts), 0);
          const power = isPowerLimited ? { powerWatts: 17 * GPU_WATTS } : {};
          const plain = fleetShape(
            [{ hosts: [{}, {}], ...power }, { hosts: [{}] }],
            quotaLeft === undefined ? [] : [{ id: "t", quota: { "*": total + quotaLeft } }],
          );
          const shape = {
            ...plain,
            clusters: plain.clusters.map((each, at) => ({ ...each, site: sites[at] ?? "a" })),
          };
          const held = heldBy(drawn).map(([job, parts, spec]): Held => [
            job,
            onTwo(parts),
            { ...spec, constraints: { maxClusters: 2 } },
          ]);
          const least = isShrinking ? Math.ceil(wanted / 2) : wanted;
          const ask = { gang: { min: least, timeoutMs: ms(1e9) }, constraints: { maxClusters } };
          const before = busyLedger(shape, held, [{ job: "infer", gpus: wanted, ...ask }]);
          const rest = gpus(["c0/h1", 0xf0]);
          const ledger =
            isReservedFor === "nobody"
              ? before
              : withReservations(before, reserved(isReservedFor, rest));
          if (!ledger.requests.has(jobId("infer"))) return;
          const { fits, may } = fitsWithout(ledger, gone);
          if (fits) fitting += 1;
          if (fits && !isShrinking) expect(may).toBe(true);
        },
      ),
      { numRuns: caseCount(400) },
    );
    expect(fitting).toBeGreaterThan(0);
  });

  test("is ruled out where each cluster has too few, however many there are together", () => {
    const shape = fleetShape([{ hosts: [{}] }, { hosts: [{}] }]);
    const held: readonly Held[] = [["a", gpus(["c0/h0", 0xff])]];
    const asked = (maxClusters: number): Ledger =>
      busyLedger(shape, held, [{ job: "infer", gpus: 12, constraints: { maxClusters } }]);
    expect(fitsWithout(asked(1), 1)).toEqual({ fits: false, may: false });
    expect(fitsWithout(asked(2), 1)).toEqual({ fits: true, may: true });
    expect(fitsWithout(asked(2), 0)).toEqual({ fits: false, may: false });
  });

  test.each([
    { owner: "infer", want: true },
    { owner: "other", want: false },
  ])(
    "counts what victims give back of GPUs reserved for itself alone: $owner",
    ({ owner, want }) => {
      const shape = fleetShape([{ hosts: [{}] }]);
      const busy = busyLedger(shape, [["a", H0]], [{ job: "infer", gpus: 8 }]);
      const ledger = withReservations(busy, reserved(owner, H0));
      expect(fitsWithout(ledger, 1)).toEqual({ fits: want, may: want });
    },
  );

  test("is open where a victim keeps others of its label off a host, whatever it has there", () => {
    const shape = fleetShape([{ hosts: [{}] }]);
    const constraints = { antiAffinity: "replica" };
    const held: readonly Held[] = [["a", gpus(["c0/h0", 0b11]), { constraints }]];
    const ledger = busyLedger(shape, held, [
      { job: "infer", class: "inference", gpus: 8, constraints },
    ]);
    expect(fitsWithout(ledger, 0)).toEqual({ fits: false, may: true });
    expect(fitsWithout(ledger, 1)).toEqual({ fits: true, may: true });
    expect(preemptFor(ledger, "infer", NOW_MS)?.evict).toHaveLength(1);
  });

  test("counts what victims of the same tenant give back to its quota", () => {
    const shape = fleetShape([{ hosts: [{}, {}] }], [{ id: "t", quota: { "*": 8 } }]);
    const ledger = busyLedger(shape, [["a", H0]], [{ job: "infer", gpus: 8 }]);
    expect(fitsWithout(ledger, 0)).toEqual({ fits: false, may: false });
    expect(fitsWithout(ledger, 1)).toEqual({ fits: true, may: true });
  });
});

const H0 = gpus(["c0/h0", 0xff]);
const GPU_WATTS = 700;

/** The third host is one of another cluster. */
const onTwo = (parts: readonly HostGpus[]): readonly HostGpus[] =>
  parts.flatMap(({ host, mask }) => gpus([host === "c0/h2" ? "c1/h0" : host, mask]));

test("a search is vain only where no eviction is found, with or without what others have reserved", () => {
  const asker = fc.record({
    class: fc.constantFrom(...JOB_CLASSES),
    tenant: fc.constantFrom("t", "other"),
    gpus: fc.integer({ min: 1, max: 24 }),
    hasQuota: fc.boolean(),
    isReserved: fc.boolean(),
  });
  const rights = ["due", "reclaim"] as const;
  const counts = { vain: 0, found: 0 };
  fc.assert(
    fc.property(jobs, asker, (drawn, { hasQuota, isReserved, ...spec }) => {
      const quotas = hasQuota ? [{ id: "other", quota: { "*": 24 }, borrowingLimit: 0 }] : [];
      const shape = fleetShape([{ hosts: [{}, {}, {}] }], quotas);
      const before = busyLedger(shape, heldBy(drawn), [{ job: "asks", ...spec }]);
      if (!before.requests.has(jobId("asks"))) return;
      const rest = reserved("behind", gpus(["c0/h2", 0xff]));
      const ledger = isReserved ? withReservations(before, rest) : before;
      const { view, preemption } = viewOf(ledger, NOW_MS);
      const request = requestOf(ledger, "asks");
      const isNobody = !mayEvictBy(rights, request, preemption);
      if (isReserved) noteReservation(view.capacity, rest, undefined);
      const plan = planPreemption(request, view, { preemption, place: plainPlace, rights });
      if (isNobody) counts.vain += 1;
      if (plan !== undefined) counts.found += 1;
      if (isNobody) expect(plan).toBeUndefined();
    }),
    { numRuns: caseCount(300) },
  );
  expect(Math.min(counts.vain, counts.found)).toBeGreaterThan(0);
});
