/** @file Weighted fair queuing: who is next, and the laws of its order. Starvation has a file of its own. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { JOB_CLASSES, type JobClass } from "../../../domain/job/job.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import type { QueueFacts } from "../../../scheduling/ledger/rules/service-account.ts";
import { HORIZON_SECONDS, tawfq } from "../../../scheduling/queue/tawfq.ts";
import { idsOf, pendingOf, requestsOf, rule, runPool, type PoolJob } from "./pool.ts";
import { caseCount } from "../../support/case-count.ts";

const NOBODY: QueueFacts = { runningGpus: new Map() };
const MINUTE_MS = DEFAULT_POLICY.agingMs;

const waiting = (
  name: string,
  spec: Partial<PoolJob> & { readonly arrival?: number } = {},
): PendingRequest => {
  const { arrival = 0, ...job } = spec;
  return pendingOf(
    name,
    { class: "training", tenant: "t", gpus: 1, atMs: 0, runMs: 1, ...job },
    arrival,
  );
};

const served = (virtualSeconds: Readonly<Record<string, number>>): QueueFacts => ({
  service: {
    atMs: 0,
    flows: new Map(
      Object.entries(virtualSeconds).map(([flow, seconds]) => [flow, { virtualSeconds: seconds }]),
    ),
  },
  runningGpus: new Map(),
});

describe("next is", () => {
  test.each([
    {
      name: "the heavier class, when nobody was served",
      requests: [
        waiting("t"),
        waiting("i", { class: "inference" }),
        waiting("d", { class: "interactive" }),
      ],
      facts: NOBODY,
      want: ["i", "d", "t"],
    },
    {
      name: "the class that was served least for its weight",
      requests: [waiting("t"), waiting("i", { class: "inference" })],
      facts: served({ inference: 5, training: 4 }),
      want: ["t", "i"],
    },
    {
      name: "the tenant that was served least for its weight, inside its class",
      requests: [waiting("a", { tenant: "a" }), waiting("b", { tenant: "b" })],
      facts: served({ "training a": 5, "training b": 4 }),
      want: ["b", "a"],
    },
    {
      name: "the tenant by its id, all else equal",
      requests: [waiting("b", { tenant: "b", atMs: 0 }), waiting("a", { tenant: "a", atMs: 9 })],
      facts: NOBODY,
      want: ["a", "b"],
    },
    {
      name: "the older request of a tenant",
      requests: [waiting("young", { atMs: 9 }), waiting("old", { atMs: 3 })],
      facts: NOBODY,
      want: ["old", "young"],
    },
    {
      name: "the more important request of a tenant, if it is not much younger",
      requests: [waiting("old"), waiting("urgent", { atMs: MINUTE_MS - 1, priority: 1 })],
      facts: NOBODY,
      want: ["urgent", "old"],
    },
    {
      name: "the older one from where age outweighs priority",
      requests: [
        waiting("old"),
        waiting("urgent", { atMs: 3 * MINUTE_MS, priority: 3, arrival: 1 }),
      ],
      facts: NOBODY,
      want: ["old", "urgent"],
    },
    {
      name: "not who is important in another tenant",
      requests: [
        waiting("loud", { tenant: "z", priority: 1000 }),
        waiting("quiet", { tenant: "a", priority: -1000 }),
      ],
      facts: NOBODY,
      want: ["quiet", "loud"],
    },
    {
      name: "who came to the ledger first, of equals",
      requests: [waiting("a", { arrival: 2 }), waiting("b", { arrival: 1 })],
      facts: NOBODY,
      want: ["b", "a"],
    },
  ])("$name", ({ requests, facts, want }) => {
    for (const shuffled of [requests, [...requests].reverse()])
      expect(idsOf(tawfq.open({ requests: shuffled, tenants: [] }).order(0, facts))).toEqual(want);
  });

  test("by the weights of the fleet and its tenants", () => {
    const requests = [waiting("a", { tenant: "a" }), waiting("b", { tenant: "b" })];
    const heavy = tawfq.open({ requests, tenants: [rule("b", 2)] });
    expect(idsOf(heavy.order(0, NOBODY))).toEqual(["b", "a"]);
    const classes = [waiting("t"), waiting("i", { class: "inference" })];
    const classWeights = { ...DEFAULT_POLICY.classWeights, training: 1000 };
    const turned = tawfq.open({
      requests: classes,
      tenants: [],
      policy: { ...DEFAULT_POLICY, classWeights },
    });
    expect(idsOf(turned.order(0, NOBODY))).toEqual(["t", "i"]);
  });

  test("somebody else after a grant, because what was granted will be received", () => {
    const requests = ["a1", "a2", "b1", "b2"].map((name, arrival) =>
      waiting(name, { tenant: name.slice(0, 1), arrival }),
    );
    const turn = tawfq.open({ requests, tenants: [] }).order(0, NOBODY);
    const order: string[] = [];
    for (let next = turn.next(); next !== undefined; next = turn.next()) {
      order.push(next.jobId);
      turn.noteGrant(next, 1);
    }
    expect(order).toEqual(["a1", "b1", "a2", "b2"]);
  });

  test("who runs less, because what runs has been served since the account was settled", () => {
    const requests = [waiting("a", { tenant: "a" }), waiting("b", { tenant: "b" })];
    const queue = tawfq.open({ requests, tenants: [] });
    const { service } = served({ "training a": 0, "training b": 100 });
    const facts = { ...(service && { service }), runningGpus: new Map([["training a", 2]]) };
    expect(idsOf(queue.order(0, facts))).toEqual(["a", "b"]);
    expect(2 * HORIZON_SECONDS + 2 * 21).toBeGreaterThan(100);
    expect(idsOf(queue.order(21_000, facts))).toEqual(["b", "a"]);
  });
});

const flows = fc.record({
  class: fc.constantFrom(...JOB_CLASSES),
  tenant: fc.constantFrom("a", "b", "c"),
});
const jobs: fc.Arbitrary<PoolJob> = fc
  .record({
    flow: flows,
    gpus: fc.constantFrom(1, 2, 3, 8),
    atMs: fc.nat(5 * MINUTE_MS),
    priority: fc.integer({ min: -3, max: 3 }),
  })
  .map(({ flow, ...rest }) => ({ ...flow, ...rest, runMs: 1 }));
const facts: fc.Arbitrary<QueueFacts> = fc
  .record({
    virtualSeconds: fc.array(fc.nat(50), { minLength: 12, maxLength: 12 }),
    running: fc.array(fc.nat(3), { minLength: 12, maxLength: 12 }),
  })
  .map(({ virtualSeconds, running }) => {
    const names = JOB_CLASSES.flatMap((each) => [each, `${each} a`, `${each} b`, `${each} c`]);
    return {
      service: {
        atMs: 0,
        flows: new Map(
          names.map((name, at) => [name, { virtualSeconds: virtualSeconds[at] ?? 0 }]),
        ),
      },
      runningGpus: new Map(names.map((name, at) => [name, running[at] ?? 0])),
    };
  });
const lines = fc
  .array(jobs, { maxLength: 25 })
  .map((all) => all.map((job, at) => pendingOf(`j${at}`, job, at)));

test("work conserving: whatever is granted in a turn, every waiting request comes once", () => {
  fc.assert(
    fc.property(lines, facts, fc.func(fc.boolean()), (requests, now, isGranted) => {
      const turn = tawfq.open({ requests, tenants: [rule("a", 3)] }).order(0, now);
      const seen: string[] = [];
      for (let next = turn.next(); next !== undefined; next = turn.next()) {
        seen.push(next.jobId);
        if (isGranted(next.jobId)) turn.noteGrant(next, next.gang.gpus);
      }
      expect(seen.sort()).toEqual(requests.map(({ jobId: id }) => id as string).sort());
    }),
  );
});

test.for([
  { what: "by kind", kept: {} },
  { what: "without kinds", kept: { kindOf: "none" } },
] as const)("a kept queue $what gives the order of one that is opened afresh", ({ kept: how }) => {
  fc.assert(
    fc.property(
      lines,
      lines,
      fc.array(fc.nat(24)),
      facts,
      fc.nat(9_000),
      (first, later, gone, now, nowMs) => {
        const kept = tawfq.open({ requests: first, tenants: [rule("b", 2)], ...how });
        const all = new Map(first.map((request) => [request.jobId, request]));
        idsOf(kept.order(0, now));
        for (const request of later) {
          kept.add(request);
          all.set(request.jobId, request);
        }
        for (const at of gone) {
          kept.remove(jobId(`j${at}`));
          all.delete(jobId(`j${at}`));
        }
        const fresh = tawfq.open({ requests: all.values(), tenants: [rule("b", 2)] });
        expect(kept.size()).toBe(all.size);
        expect(idsOf(kept.order(nowMs, now))).toEqual(idsOf(fresh.order(nowMs, now)));
      },
    ),
  );
});

test("a dismissed kind is passed over, the others keep their order", () => {
  fc.assert(
    fc.property(lines, facts, fc.nat(24), (requests, now, at) => {
      const queue = tawfq.open({
        requests,
        tenants: [],
        kindOf: ({ gang }) => String(gang.gpus),
      });
      const order = requestsOf(queue.order(0, now));
      const dropped = order[at % Math.max(1, order.length)];
      const turn = queue.order(0, now);
      const seen: string[] = [];
      for (let next = turn.next(); next !== undefined; next = turn.next()) {
        seen.push(next.jobId);
        if (next === dropped) turn.dismiss(next);
      }
      const isAlike = (one: PendingRequest): boolean =>
        one.gang.gpus === dropped?.gang.gpus &&
        one.class === dropped.class &&
        one.tenant === dropped.tenant;
      const until = dropped === undefined ? order.length : order.indexOf(dropped);
      const want = order.filter((one, index) => index <= until || !isAlike(one));
      expect(seen).toEqual(want.map(({ jobId: id }) => id));
    }),
  );
});

test("waiting never hurts: who is before whom changes with time only against those that are served", () => {
  fc.assert(
    fc.property(lines, facts, fc.nat(1_000_000), (requests, now, laterMs) => {
      const queue = tawfq.open({ requests, tenants: [rule("a", 2)] });
      const before = requestsOf(queue.order(0, now));
      const after = new Map(
        requestsOf(queue.order(laterMs, now)).map((request, place) => [request, place]),
      );
      const isServed = ({ class: jobClass, tenant }: PendingRequest): boolean =>
        (now.runningGpus.get(jobClass) ?? 0) > 0 ||
        (now.runningGpus.get(`${jobClass} ${tenant}`) ?? 0) > 0;
      before.forEach((one, at) => {
        if (isServed(one)) return;
        for (const behind of before.slice(at + 1))
          expect(after.get(one)).toBeLessThan(after.get(behind) ?? -1);
      });
    }),
  );
});

test("age overtakes: a request passes every one of its tenant that is Δ more important once it is Δ · agingMs older", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: -1000, max: 1000 }),
      fc.integer({ min: -1000, max: 1000 }),
      fc.integer({ min: 1, max: 600_000 }),
      fc.integer({ min: -2, max: 2 }),
      (low, high, agingMs, offMs) => {
        const by = Math.abs(high - low);
        const atMs = by * agingMs + offMs;
        const requests = [
          waiting("old", { priority: Math.min(low, high) }),
          waiting("urgent", { priority: Math.max(low, high), atMs, arrival: 1 }),
        ];
        const policy = { ...DEFAULT_POLICY, agingMs: agingMs as typeof DEFAULT_POLICY.agingMs };
        const [first] = idsOf(tawfq.open({ requests, tenants: [], policy }).order(0, NOBODY));
        expect(first).toBe(offMs >= 0 ? "old" : "urgent");
      },
    ),
  );
});

describe("in a pool that is always short of GPUs", () => {
  const backlog = (jobClass: JobClass, tenant: string, runMs: number): readonly PoolJob[] =>
    Array.from({ length: 6_000 }, () => ({ class: jobClass, tenant, gpus: 1, atMs: 0, runMs }));

  test("classes are served 100 : 10 : 1", () => {
    const all = JOB_CLASSES.flatMap((jobClass) => backlog(jobClass, "t", 1_000));
    const { book } = runPool(tawfq, all, { gpuCount: 111, untilMs: 45_000 });
    const received = JOB_CLASSES.map((flow) => book.flows.get(flow)?.receivedGpuSeconds ?? 0);
    expect(received.reduce((sum, each) => sum + each, 0)).toBe(111 * 45);
    expect(received[0]).toBeCloseTo(100 * 45, -2);
    expect(received[1]).toBeCloseTo(10 * 45, -1.5);
    expect(received[2]).toBeCloseTo(45, -1.5);
  });

  test("tenants of one class are served by their weights, however long each one's jobs are", () => {
    const all = [backlog("training", "a", 700), backlog("training", "b", 2_300)].flat();
    const { book } = runPool(tawfq, all, {
      gpuCount: 8,
      tenants: [rule("a", 1), rule("b", 3)],
      untilMs: 600_000,
    });
    const of = (flow: string): number => book.flows.get(flow)?.receivedGpuSeconds ?? 0;
    expect(of("training a") + of("training b")).toBeCloseTo(8 * 600, -1);
    expect(of("training b") / of("training a")).toBeCloseTo(3, 1);
  });
});

test("bounded lag: a flow that waits is at most L·r_i/w_i + H·max r_k/w_k ahead of the least served one", () => {
  const GPUS = 12;
  const LONGEST_MS = 40_000;
  const stream = fc.array(
    fc.record({
      tenant: fc.constantFrom("a", "b", "c"),
      gpus: fc.integer({ min: 1, max: 6 }),
      atMs: fc.nat(300_000),
      runMs: fc.integer({ min: 1, max: LONGEST_MS }),
    }),
    { minLength: 40, maxLength: 120 },
  );
  const weights = fc.record({
    a: fc.constantFrom(1, 5),
    b: fc.constantFrom(1, 2),
    c: fc.constantFrom(1, 10),
  });
  fc.assert(
    fc.property(stream, weights, (all, by) => {
      const tenants = Object.entries(by).map(([id, weight]) => rule(id, weight));
      runPool(
        tawfq,
        all.map((job) => ({ ...job, class: "training" as const })),
        {
          gpuCount: GPUS,
          tenants,
          watch: {
            moment: ({ book }) => {
              const waits = [...(book.waiting.get("training")?.keys() ?? [])];
              const v = (flow: string): number => book.flows.get(flow)?.virtualSeconds ?? 0;
              const least = Math.min(...waits.map(v));
              const horizon = (HORIZON_SECONDS * GPUS) / Math.min(...Object.values(by));
              for (const flow of waits) {
                const runsOn = (GPUS * LONGEST_MS) / 1_000 / book.weightOf(flow);
                expect(v(flow) - least).toBeLessThanOrEqual(runsOn + horizon + 1e-6);
              }
            },
          },
        },
      );
    }),
    { numRuns: caseCount(60) },
  );
});
