/** @file Laws of preemption over random arrivals: no flow is wronged, everything is affordable, and it comes to rest. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY, type FleetShape } from "../../../domain/fleet/fleet.ts";
import { type JobId } from "../../../domain/values/ids.ts";
import {
  gpuCountOf,
  type GangRequest,
  type HostGpus,
  type Lease,
} from "../../../domain/lease/lease.ts";
import { ms } from "../../../domain/values/units.ts";
import { apply, checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { preemptionOf, spentBudget } from "../../../scheduling/ledger/apply/apply-evictions.ts";
import { noteReservation } from "../../../scheduling/capacity/capacity-changes.ts";
import { runCycle } from "../../../scheduling/cycle/cycle.ts";
import { wholeDueShares } from "../../../scheduling/fairness/due-share.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { plainPlace } from "../../../scheduling/cycle/policy-sets.ts";
import {
  planPreemption,
  type PreemptionPlan,
} from "../../../scheduling/preemption/plan-preemption.ts";
import { classFlow, flowWeights, tenantFlow } from "../../../scheduling/ledger/rules/flow.ts";
import { tawfq } from "../../../scheduling/queue/tawfq.ts";
import { sharedGpus } from "../../../scheduling/ledger/rules/reservation-index.ts";
import { end, fleetShape, gangRequest, inbox, readyLedger, type RequestSpec } from "../builders.ts";
import { asPlan, viewOf, yielded } from "../preempting.ts";
import { caseCount } from "../../support/case-count.ts";

const BUDGET = 2_000;
/** Of each tenant that has a quota. */
const OWN_GPUS = 4;

const fleets: fc.Arbitrary<FleetShape> = fc
  .record({
    hosts: fc.array(fc.constantFrom(4, 8, 2), { minLength: 1, maxLength: 4 }),
    budget: fc.constantFrom(BUDGET, 36_000, 36_000),
  })
  .map(({ hosts, budget }) => ({
    ...fleetShape(
      [{ hosts: hosts.map((gpus) => ({ gpus })) }],
      [
        { id: "q", quota: { H100: OWN_GPUS }, borrowing: 8 },
        { id: "r", quota: { H100: OWN_GPUS }, borrowing: 8 },
      ],
    ),
    policy: { ...DEFAULT_POLICY, preemptionBudgetGpuSeconds: budget },
  }));

const jobs: fc.Arbitrary<RequestSpec> = fc
  .record({
    gpus: fc.constantFrom(1, 2, 4, 8, 3, 12),
    shrink: fc.constantFrom(0, 0, 1, 3),
    tenant: fc.constantFrom("t", "u", "q", "r"),
    class: fc.constantFrom("training", "training", "interactive", "inference"),
    isPreemptible: fc.constantFrom(true, true, true, false),
    mayShrink: fc.boolean(),
    minRuntimeMs: fc.constantFrom(0, 0, 20_000),
    graceMs: fc.constantFrom(undefined, 1_000, 60_000),
  })
  .map(({ gpus, shrink, graceMs, isPreemptible, mayShrink, minRuntimeMs, ...rest }) => ({
    ...rest,
    gpus,
    gang: { min: Math.max(1, gpus - shrink), timeoutMs: ms(1e9) },
    preemption: { isPreemptible, mayShrink, minRuntimeMs: ms(minRuntimeMs) },
    ...(graceMs !== undefined && { checkpoint: { graceMs: ms(graceMs) } }),
  }));

type Step =
  | { readonly kind: "arrive"; readonly spec: RequestSpec }
  | { readonly kind: "end"; readonly at: number }
  | { readonly kind: "pass"; readonly pauseMs: number };

const histories = fc.record({
  shape: fleets,
  steps: fc.array(
    fc.oneof(
      { weight: 4, arbitrary: jobs.map((spec): Step => ({ kind: "arrive", spec })) },
      { weight: 1, arbitrary: fc.nat(20).map((at): Step => ({ kind: "end", at })) },
      {
        weight: 1,
        arbitrary: fc
          .constantFrom(1_000, 30_000)
          .map((pauseMs): Step => ({ kind: "pass", pauseMs })),
      },
    ),
    { minLength: 5, maxLength: 40 },
  ),
});

interface Preempted {
  readonly before: Ledger;
  readonly request: GangRequest;
  readonly plan: PreemptionPlan;
  readonly after: Ledger;
  readonly nowMs: number;
}

/** Plans that evict, one request after another in the order of arrival, until no request evicts any more at this time. */
function* preemptAll(start: Ledger, nowMs: number): Generator<Preempted, Ledger> {
  let ledger = start;
  for (const request of start.requests.values()) {
    const own = ledger.reservations?.get(request.jobId);
    if (own !== undefined && own.kind !== "backfill") continue;
    const { view, preemption } = viewOf(ledger, nowMs);
    noteReservation(view.capacity, own, undefined);
    const plan = planPreemption(request, view, { preemption, place: plainPlace });
    if (plan === undefined) continue;
    const { ledger: after, refusals } = apply(ledger, { kind: "plan", plan: asPlan(plan), nowMs });
    expect(refusals).toEqual([]);
    yield { before: ledger, request, plan, after, nowMs };
    ledger = after;
  }
  return ledger;
}

function granted(ledger: Ledger, nowMs: number): Ledger {
  const options = {
    policies: { queue: tawfq, backfill: "persistent", place: plainPlace },
    ports: {},
    limits: { maxCandidates: 1e6, maxReasons: 100, freshReasons: 100 },
    method: "decide",
  } as const;
  const { plan } = runCycle(ledger, nowMs, options);
  const applied = apply(ledger, { kind: "plan", plan, nowMs });
  expect(applied.refusals).toEqual([]);
  const held = [...applied.ledger.leases.values()].flatMap(({ id, state }) =>
    state === "granted" ? [id] : [],
  );
  return apply(applied.ledger, { kind: "delivered", accepted: held, gone: [], nowMs }).ledger;
}

/** One round: requests that can start do, due ones evict, evicted jobs stop and ask again. */
function round(start: Ledger, nowMs: number, note: (made: Preempted) => void): Ledger {
  let ledger = granted(start, nowMs);
  const all = preemptAll(ledger, nowMs);
  for (let next = all.next(); ; next = all.next()) {
    if (next.done === true) {
      ledger = next.value;
      break;
    }
    note(next.value);
  }
  expect(checkLedger(ledger)).toEqual([]);
  return yielded(ledger, nowMs + 500);
}

function play(
  shape: FleetShape,
  steps: readonly Step[],
  note: (made: Preempted) => void,
): { readonly ledger: Ledger; readonly nowMs: number } {
  let ledger = readyLedger(shape);
  let nowMs = 0;
  steps.forEach((step, at) => {
    nowMs += step.kind === "pass" ? step.pauseMs : 1_000;
    if (step.kind === "arrive") {
      const request = gangRequest({
        ...step.spec,
        job: `j${at}`,
        submittedAtMs: nowMs,
        requestedAtMs: nowMs,
      });
      ledger = inbox(ledger, [{ kind: "request", request }], nowMs).ledger;
    }
    if (step.kind === "end") {
      const lease = [...ledger.leases.values()][step.at % Math.max(1, ledger.leases.size)];
      if (lease !== undefined)
        ledger = inbox(
          ledger,
          [end(lease.jobId, { run: lease.runId, seq: lease.seq })],
          nowMs,
        ).ledger;
    }
    ledger = round(ledger, nowMs, note);
  });
  return { ledger, nowMs };
}

const always = (law: (made: Preempted) => void, numRuns = caseCount(40), seed?: number): void =>
  fc.assert(
    fc.property(histories, ({ shape, steps }) => {
      play(shape, steps, law);
    }),
    { numRuns, ...(seed !== undefined && { seed }) },
  );

/** Who holds what when all that is under way has happened; read afresh. */
function holdings(ledger: Ledger): (of: (holder: Lease | GangRequest) => boolean) => number {
  const parts: (readonly [Lease | GangRequest, number])[] = [];
  for (const lease of ledger.leases.values())
    if (lease.eviction === undefined && lease.state !== "vacating")
      parts.push([lease, gpuCountOf(lease.gpus)]);
  for (const { jobId, kind, gpus } of ledger.reservations?.values() ?? []) {
    const holder = ledger.requests.get(jobId) ?? leaseOf(ledger, jobId);
    if (kind !== "backfill" && holder !== undefined) parts.push([holder, gpuCountOf(gpus)]);
  }
  return (of) => parts.reduce((sum, [holder, gpus]) => sum + (of(holder) ? gpus : 0), 0);
}

const leaseOf = ({ leases }: Ledger, job: JobId): Lease | undefined =>
  [...leases.values()].find(({ jobId, eviction }) => jobId === job && eviction !== undefined);

function duesOf(ledger: Ledger): ReadonlyMap<string, number> {
  const demand = new Map<string, number>();
  const add = (flow: string, gpus: number): void => {
    demand.set(flow, (demand.get(flow) ?? 0) + gpus);
  };
  for (const lease of ledger.leases.values()) add(tenantFlow(lease), gpuCountOf(lease.gpus));
  for (const request of ledger.requests.values()) {
    const code = ledger.reasons.get(request.jobId)?.code;
    if (code !== "NoMatchingFlavor" && code !== "ExceedsMaxQuota")
      add(tenantFlow(request), request.gang.gpus);
  }
  const supply = ledger.shape.clusters.flatMap(({ hosts }) => hosts);
  return wholeDueShares(
    demand,
    flowWeights(ledger.shape.tenants, ledger.shape.policy),
    supply.reduce((sum, { gpuCount }) => sum + gpuCount, 0),
  );
}

const takenFrom = ({ before, plan }: Preempted, of: (lease: Lease) => boolean): number => {
  let sum = 0;
  for (const item of plan.evict) {
    const lease = before.leases.get(item.lease);
    if (lease !== undefined && of(lease))
      sum += gpuCountOf(sharedGpus(lease.gpus, plan.reserve.gpus));
  }
  return sum;
};

const freeIn = ({ shape, leases }: Ledger): number =>
  shape.clusters.flatMap(({ hosts }) => hosts).reduce((sum, { gpuCount }) => sum + gpuCount, 0) -
  [...leases.values()].reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0);

describe("every eviction", () => {
  // Of a flow, no more may be taken than it has above what it is entitled to; but for what was free and lay too scattered for the
  // request, which anybody may have instead. So what all the flows lack together is not more than is left free.
  test.each([
    { name: "random fleets", seed: undefined },
    { name: "a gang of which one GPU was borrowed", seed: -1539215588 },
  ])(
    "is for a job that is not above its due after, and of such as are not below theirs; or takes back what was borrowed: $name",
    ({ seed }) => {
      always(isRightful, 40, seed);
    },
  );

  function isRightful(made: Preempted): void {
    const { before, request, plan } = made;
    const size = gpuCountOf(plan.reserve.gpus);
    const held = holdings(before);
    const due = duesOf(before);
    const free = freeIn(before) - (size - takenFrom(made, () => true));
    const victims = plan.evict.flatMap(({ lease }) => before.leases.get(lease) ?? []);
    type KeyOf = (holder: Lease | GangRequest) => string;
    const isAbove = (keyOf: KeyOf, entitled: number): boolean =>
      held((holder) => keyOf(holder) === keyOf(request)) + size > entitled;
    const lacking = (
      keyOf: KeyOf,
      leases: readonly Lease[],
      entitled: (key: string) => number,
    ): number =>
      [...new Set(leases.map(keyOf))].reduce((sum, key) => {
        const left =
          held((holder) => keyOf(holder) === key) -
          takenFrom(made, (lease) => keyOf(lease) === key);
        return sum + Math.max(0, entitled(key) - left);
      }, 0);
    const dueOf = (flow: string): number => due.get(flow) ?? 0;
    const isDueBy = (keyOf: KeyOf, leases: readonly Lease[]): boolean =>
      leases.length === 0 ||
      (!isAbove(keyOf, dueOf(keyOf(request))) && lacking(keyOf, leases, dueOf) <= free);
    const others = victims.filter((lease) => lease.class !== request.class);
    const isDue = isDueBy(tenantFlow, victims) && isDueBy(classFlow, others);
    const tenantOf: KeyOf = ({ tenant }) => tenant;
    const isOwner = ({ tenant }: Lease | GangRequest): boolean => tenant === "q" || tenant === "r";
    const isReclaim =
      [request, ...victims].every(isOwner) &&
      !isAbove(tenantOf, OWN_GPUS) &&
      lacking(tenantOf, victims, () => OWN_GPUS) <= free;
    expect(isDue || isReclaim).toBe(true);
    for (const lease of victims) expect(tenantFlow(lease)).not.toBe(tenantFlow(request));
  }

  test("respects protected time, consent, and the budget of the hour", () => {
    always(({ before, request, plan, after, nowMs }) => {
      for (const { lease: id } of plan.evict) {
        const lease = before.leases.get(id);
        if (lease === undefined) throw new Error(`${id} is not there`);
        const { isPreemptible, minRuntimeMs } = preemptionOf(lease);
        expect(isPreemptible).toBe(true);
        expect(nowMs - lease.grantedAtMs).toBeGreaterThanOrEqual(minRuntimeMs);
      }
      const budget = after.shape.policy?.preemptionBudgetGpuSeconds ?? 0;
      expect(spentBudget(after.evictions ?? [], request.tenant, nowMs)).toBeLessThanOrEqual(budget);
    });
  });

  test("takes only what the place needs: every victim has GPUs in it, and what is kept is none of it", () => {
    always(({ before, plan }) => {
      expect(plan.evict.length).toBeGreaterThan(0);
      for (const { lease: id, keep = [] } of plan.evict) {
        const gpus: readonly HostGpus[] = before.leases.get(id)?.gpus ?? [];
        expect(gpuCountOf(sharedGpus(gpus, plan.reserve.gpus))).toBeGreaterThan(0);
        expect(sharedGpus(keep, plan.reserve.gpus)).toEqual([]);
      }
    });
  });

  test("lets its beneficiary start on the reserved GPUs as soon as the orders were followed", () => {
    always(({ after, request, plan, nowMs }) => {
      const free = yielded(after, nowMs + 100);
      const started = granted(free, nowMs + 200);
      const lease = [...started.leases.values()].find(({ jobId }) => jobId === request.jobId);
      expect(lease?.seq).toBe(request.seq);
      expect(gpuCountOf(lease?.gpus ?? [])).toBeGreaterThanOrEqual(gpuCountOf(plan.reserve.gpus));
    }, 40);
  });
});

describe("without arrivals and ends", () => {
  test("preemption comes to rest: no job evicts twice, and none that was evicted evicts anybody", () => {
    fc.assert(
      fc.property(histories, ({ shape, steps }) => {
        const { ledger, nowMs } = play(shape, steps, () => undefined);
        let now = ledger;
        const winners: JobId[] = [];
        const evicted = new Set<JobId>();
        let rounds = 0;
        for (let isCalm = false; !isCalm; rounds += 1) {
          isCalm = true;
          now = round(now, nowMs + 1_000 + 30_000 * rounds, ({ before, request, plan }) => {
            isCalm = false;
            expect(evicted.has(request.jobId)).toBe(false);
            winners.push(request.jobId);
            for (const { lease } of plan.evict) {
              const victim = before.leases.get(lease);
              if (victim !== undefined) evicted.add(victim.jobId);
            }
          });
          expect(rounds).toBeLessThan(50);
        }
        expect(new Set(winners).size).toBe(winners.length);
      }),
      { numRuns: caseCount(50) },
    );
  });
});
