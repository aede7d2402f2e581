/** @file Processors and memory of hosts in decisions: what starts where, what waits and why, and that no host is ever promised twice. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { FleetShape, HostShape } from "../../../domain/fleet/fleet.ts";
import type { GpuNeed } from "../../../domain/job/job-resources.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { decide, decideBaseline } from "../../../scheduling/cycle/decide.ts";
import { openSession } from "../../../scheduling/cycle/live-scheduler.ts";
import { unblock } from "../../../scheduling/explain/remedies.ts";
import { whatIf } from "../../../scheduling/explain/what-if.ts";
import { emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { isSuitable } from "../../../scheduling/ledger/rules/grant-check.ts";
import { takenGpus } from "../../../scheduling/ledger/rules/usage.ts";
import { caseCount } from "../../support/case-count.ts";
import { fleets, wishes } from "../arbitraries.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gangRequest,
  gpus,
  hello,
  inbox,
  leased,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

/** Each with 8 GPUs, 64 processors and 512 GiB: a GPU's share is 8 and 64. */
const HOST = { cpus: 64, hostMemoryGiB: 512 };
const fleetOf = (count: number): Ledger =>
  readyLedger(fleetShape([{ hosts: Array.from({ length: count }, () => HOST) }]));
const needing = (resources: GpuNeed, more: RequestSpec = {}): RequestSpec => ({
  ...more,
  constraints: { ...more.constraints, resources },
});
const decided = (ledger: Ledger, nowMs = 0): Ledger =>
  applyPlan(ledger, decide(ledger, nowMs), nowMs).ledger;
const placeOf = (ledger: Ledger, job: string) =>
  [...ledger.leases.values()].find(({ jobId }) => jobId === job)?.gpus;

describe("a job that takes more than the shares of its GPUs", () => {
  test("goes to a host that has as much left", () => {
    const busy = leased(fleetOf(2), needing({ memoryGiB: 300 }, { job: "a" }), gpus(["c0/h0", 1]));
    const asked = inbox(busy, [ask(needing({ memoryGiB: 300 }, { job: "b" }))]).ledger;
    expect(placeOf(decided(asked), "b")).toEqual(gpus(["c0/h1", 1]));
  });

  test("leaves the others the shares that are left, and no more", () => {
    const busy = leased(fleetOf(1), needing({ memoryGiB: 320 }, { job: "a" }), gpus(["c0/h0", 1]));
    const all = Array.from({ length: 5 }, (_, at) => ask({ job: `s${at}` }));
    const after = decided(inbox(busy, all).ledger);
    // 192 GiB are three shares of 64.
    expect(after.leases.size).toBe(4);
    expect([...after.requests.keys()]).toHaveLength(2);
    const reason = [...after.reasons.values()][0];
    expect(reason).toMatchObject({
      code: "WaitingForResources",
      numbers: { needGpus: 1, idleGpus: 4, largestUnleasedGpus: 0 },
    });
    expect(reason?.holders).toContain("a");
    const ended = inbox(after, [end("a")]).ledger;
    expect(decided(ended).requests.size).toBe(0);
  });

  test("waits with numbers, and what would unblock it, where too little is left", () => {
    const busy = leased(fleetOf(1), { job: "a", gpus: 4 }, gpus(["c0/h0", 0b1111]));
    const ledger = decided(
      inbox(busy, [ask(needing({ cpus: 33, memoryGiB: 8 }, { job: "b" }))]).ledger,
    );
    expect(ledger.leases.size).toBe(1);
    const reason = [...ledger.reasons.values()][0];
    expect(reason).toMatchObject({
      code: "WaitingForResources",
      numbers: { needGpus: 1, idleGpus: 4, largestUnleasedGpus: 0, cpusForGpu: 33 },
      holders: ["a"],
    });
    expect(reason?.message).toContain("33 CPUs and 8 GiB for each GPU");
    const changes = unblock(ledger, gangRequest({ job: "b" }).jobId, { nowMs: 0 });
    expect(changes.map(({ kind }) => kind)).toEqual(
      expect.arrayContaining(["constraint", "release"]),
    );
    expect(changes.find(({ kind }) => kind === "constraint")?.text).toContain("(resources)");
  });

  test("never starts where no host has as much in all", () => {
    const request = gangRequest(needing({ cpus: 65 }, { job: "b" }));
    expect(whatIf(fleetOf(2), request, { nowMs: 0 })).toMatchObject({ kind: "never" });
  });

  test("what if: starts where there is room, and waits where there is none", () => {
    const request = gangRequest(needing({ memoryGiB: 500 }, { job: "b" }));
    expect(whatIf(fleetOf(1), request, { nowMs: 0 })).toMatchObject({ kind: "starts" });
    const busy = leased(fleetOf(1), { job: "a" }, gpus(["c0/h0", 1]));
    expect(whatIf(busy, request, { nowMs: 0 })).toMatchObject({
      kind: "waits",
      answer: { kind: "waiting", reason: { code: "WaitingForResources" } },
    });
  });

  test("lets jobs that take less share its host", () => {
    const busy = leased(fleetOf(1), needing({ memoryGiB: 505 }, { job: "a" }), gpus(["c0/h0", 1]));
    const all = Array.from({ length: 8 }, (_, at) =>
      ask(needing({ memoryGiB: 1, cpus: 1 }, { job: `s${at}` })),
    );
    expect(decided(inbox(busy, all).ledger).leases.size).toBe(8);
  });

  test("as an array: only as many tasks on a host as it has room for", () => {
    const array = ask(needing({ memoryGiB: 200 }, { job: "a", slots: 6 }));
    const after = decided(inbox(fleetOf(2), [array]).ledger);
    expect([...after.leases.values()].map(({ slots }) => slots)).toEqual([2, 2]);
    expect([...after.requests.values()].map(({ slots }) => slots)).toEqual([2]);
  });

  test("gets its turn though jobs that take their shares come and go for ever", () => {
    let ledger = fleetOf(1);
    const small = (at: number): RequestSpec => ({
      job: `s${at}`,
      timeLimitMs: 100 as never,
      submittedAtMs: at * 10,
      requestedAtMs: at * 10,
    });
    let startedAtMs: number | undefined;
    for (let at = 0; at < 60 && startedAtMs === undefined; at += 1) {
      const nowMs = at * 10;
      const ended = [...ledger.leases.values()].filter(
        ({ grantedAtMs }) => nowMs - grantedAtMs >= 100,
      );
      const entries = [
        ...ended.map(({ jobId }) => end(jobId)),
        ask(small(at)),
        ...(at === 12
          ? [
              ask(
                needing(
                  { memoryGiB: 400 },
                  { job: "big", submittedAtMs: nowMs, requestedAtMs: nowMs },
                ),
              ),
            ]
          : []),
      ];
      ledger = decided(inbox(ledger, entries, nowMs).ledger, nowMs);
      if (placeOf(ledger, "big") !== undefined) startedAtMs = nowMs;
    }
    expect(startedAtMs).toBeLessThan(400);
  });
});

const amounts = fc.record(
  { cpus: fc.constantFrom(0.5, 4, 8, 12, 20), memoryGiB: fc.constantFrom(0.5, 20, 30, 64) },
  { requiredKeys: [] },
);
const stated: fc.Arbitrary<FleetShape> = fc
  .record({
    shape: fleets,
    of: fc.array(
      fc.record(
        { cpus: fc.constantFrom(7, 16, 24), hostMemoryGiB: fc.constantFrom(48, 64, 100) },
        { requiredKeys: [] },
      ),
      { minLength: 6, maxLength: 6 },
    ),
  })
  .map(({ shape, of }) => {
    let at = 0;
    return {
      ...shape,
      clusters: shape.clusters.map((cluster) => ({
        ...cluster,
        hosts: cluster.hosts.map((host) => ({ ...host, ...of[at++ % of.length] }) as HostShape),
      })),
    };
  });
const asks = fc.record({
  wish: wishes,
  need: fc.option(amounts, { nil: undefined }),
  slots: fc.option(fc.integer({ min: 1, max: 4 }), { nil: undefined, freq: 4 }),
});

/** Counted from nothing: what the leases of each host take of what it states. */
function overpromised(ledger: Ledger): readonly string[] {
  return ledger.shape.clusters.flatMap(({ hosts }) =>
    hosts.flatMap((host) =>
      (["cpus", "memoryGiB"] as const).flatMap((of) => {
        const total = of === "cpus" ? host.cpus : host.hostMemoryGiB;
        if (total === undefined) return [];
        let taken = 0;
        for (const lease of ledger.leases.values())
          for (const { host: id, mask } of takenGpus(lease))
            if (id === host.id)
              taken +=
                popCount(mask) *
                (lease.terms?.constraints.resources?.[of] ?? total / host.gpuCount);
        return taken > total * (1 + 1e-6) ? [`${host.id} ${of} ${taken} of ${total}`] : [];
      }),
    ),
  );
}

describe("whatever is asked for, comes and goes", () => {
  test.each([
    { name: "decide", answer: decide },
    { name: "decideBaseline", answer: decideBaseline },
  ])(
    "$name promises no host's processors or memory twice, nothing that apply refuses, and starts all in the end",
    ({ answer }) => {
      fc.assert(
        fc.property(
          stated,
          fc.array(asks, { minLength: 3, maxLength: 14, size: "max" }),
          fc.infiniteStream(fc.nat()),
          (shape, all, dice) => {
            let ledger = readyLedger(shape);
            const roll = (most: number): number => (dice.next().value ?? 0) % most;
            const step = (nowMs: number): void => {
              const after = applyPlan(ledger, answer(ledger, nowMs), nowMs);
              expect(after.refusals).toEqual([]);
              ledger = after.ledger;
              expect(overpromised(ledger)).toEqual([]);
            };
            for (const [at, { wish, need, slots }] of all.entries()) {
              const spec = {
                ...wish,
                job: `j${String(at).padStart(2, "0")}`,
                priority: 0,
                submittedAtMs: at,
                requestedAtMs: at,
                ...(slots !== undefined && { slots }),
              };
              const request = need === undefined ? spec : needing(need, spec);
              const running = [...ledger.leases.values()];
              const gone =
                running.length > 0 && roll(3) === 0 ? running[roll(running.length)] : undefined;
              const entries = [ask(request), ...(gone ? [end(gone.jobId)] : [])];
              ledger = inbox(ledger, entries, at).ledger;
              step(at);
            }
            for (let at = 1_000; at < 1_060 && ledger.leases.size > 0; at += 1) {
              const [first] = ledger.leases.values();
              if (first !== undefined) ledger = inbox(ledger, [end(first.jobId)], at).ledger;
              step(at);
            }
            // All gang timeouts are over.
            step(2_000);
            if (answer !== decide) return;
            // On an empty fleet everything has started that any host of it suits.
            for (const { code } of ledger.reasons.values())
              expect(code).toMatch(/^(NoMatchingFlavor|ExceedsMaxQuota)$/);
          },
        ),
        { numRuns: caseCount(200) },
      );
    },
  );

  test("decisions are the same where hosts state amounts and nobody asks for any", () => {
    fc.assert(
      fc.property(
        fleets,
        fc.array(wishes, { minLength: 3, maxLength: 10, size: "max" }),
        (shape, all) => {
          const plan = (of: FleetShape): unknown => {
            const entries = all.map((wish, at) => ask({ ...wish, job: `j${at}`, priority: 0 }));
            return decide(inbox(readyLedger(of), entries).ledger, 20).items;
          };
          const uniform = {
            ...shape,
            clusters: shape.clusters.map((cluster) => ({
              ...cluster,
              hosts: cluster.hosts.map((host) => ({ ...host, ...HOST }) as HostShape),
            })),
          };
          expect(plan(uniform)).toEqual(plan(shape));
        },
      ),
      { numRuns: caseCount(200) },
    );
  });

  test("a session that follows decides as decide does on the whole ledger", () => {
    fc.assert(
      fc.property(
        stated,
        fc.array(asks, { minLength: 3, maxLength: 12, size: "max" }),
        (shape, all) => {
          const session = openSession(readyLedger(shape));
          for (const [at, { wish, need }] of all.entries()) {
            const spec = { ...wish, job: `j${at}`, submittedAtMs: at, requestedAtMs: at };
            const oldest = at % 4 === 3 ? [...session.ledger.leases.values()][0] : undefined;
            session.apply({
              kind: "inbox",
              entries: [
                ask(need === undefined ? spec : needing(need, spec)),
                ...(oldest ? [end(oldest.jobId)] : []),
              ],
              nowMs: at,
            });
            const plan = session.decide(at);
            expect(plan.items).toEqual(decide(session.ledger, at).items);
            session.apply({ kind: "plan", plan, nowMs: at });
          }
        },
      ),
      { numRuns: caseCount(150) },
    );
  });
});

test("a lease that a lost ledger hears of counts with what it takes", () => {
  const fact = {
    id: "lease-7",
    token: 7,
    jobId: "a",
    runId: "a-run1",
    seq: 1,
    class: "training",
    tenant: "t",
    gpus: gpus(["c0/h0", 1]),
    resources: { memoryGiB: 500 },
    grantedAtMs: 0,
    requestedAtMs: 0,
  };
  const shape = fleetShape([{ hosts: [HOST] }]);
  const lost = { ...emptyLedger(shape), nextToken: 9, recovery: { tokensBelow: 9 } };
  const told = inbox(lost, [
    { ...hello(["c0/h0"]), running: [{ host: "c0/h0", lease: "lease-7", token: 7, fact }] },
    { kind: "assert", lease: fact },
  ]).ledger;
  expect(told.leases.size).toBe(1);
  expect(decided(inbox(told, [ask({ job: "b" })]).ledger).leases.size).toBe(1);
  const former = {
    ...told,
    leases: new Map([...told.leases].map(([id, lease]) => [id, { ...lease, resources: {} }])),
  };
  expect(decided(inbox(former, [ask({ job: "b" })]).ledger).leases.size).toBe(2);
});

test("a host without an amount is not judged by it", () => {
  const [cluster] = fleetShape([{ hosts: [{}] }]).clusters;
  const [host] = cluster?.hosts ?? [];
  if (cluster === undefined || host === undefined) throw new Error("the fleet has a host");
  const request = gangRequest(needing({ cpus: 1e6, memoryGiB: 1e6 }));
  expect(isSuitable(request, { host, cluster })).toBe(true);
});
