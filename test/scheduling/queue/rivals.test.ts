/** @file The orders of the rivals: each in a table, and all of them as kept queues against opened ones. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { JOB_CLASSES } from "../../../domain/job/job.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { drf } from "../../../scheduling/queue/drf.ts";
import { fifo } from "../../../scheduling/queue/fifo.ts";
import { largestFirst } from "../../../scheduling/queue/largest-first.ts";
import type { QueuePolicy } from "../../../scheduling/queue/queue-policy.ts";
import { idsOf, pendingOf, rule, type PoolJob } from "./pool.ts";

const NOBODY = { runningGpus: new Map<string, number>() };

const waiting = (name: string, spec: Partial<PoolJob> = {}): PendingRequest =>
  pendingOf(name, { class: "training", tenant: "t", gpus: 1, atMs: 0, runMs: 1, ...spec }, 0);

describe("next is", () => {
  const mixed = [
    waiting("late-large", { atMs: 9, gpus: 8, tenant: "a" }),
    waiting("early-small", { atMs: 1, gpus: 1, tenant: "a" }),
    waiting("urgent", { atMs: 10, gpus: 2, tenant: "b", priority: 1 }),
    waiting("inference", { atMs: 11, gpus: 1, tenant: "c", class: "inference" }),
  ];
  test.each<{ readonly name: string; readonly policy: QueuePolicy; readonly want: string[] }>([
    {
      name: "FIFO: by priority, then by age",
      policy: fifo,
      want: ["urgent", "early-small", "late-large", "inference"],
    },
    {
      name: "bin-packing: the largest gang",
      policy: largestFirst,
      want: ["late-large", "urgent", "early-small", "inference"],
    },
    {
      name: "DRF: of the tenant that holds least, by priority and age",
      policy: drf,
      want: ["inference", "urgent", "early-small", "late-large"],
    },
  ])("$name", ({ policy, want }) => {
    const runningGpus = new Map([
      ["training a", 3],
      ["inference a", 1],
      ["inference b", 2],
      ["training", 3],
    ]);
    const turn = policy.open({ requests: mixed, tenants: [] }).order(0, { runningGpus });
    expect(idsOf(turn)).toEqual(want);
  });

  test("DRF: by weight, and anew after every grant", () => {
    const requests = ["a1", "a2", "a3", "b1", "b2"].map((name, atMs) =>
      waiting(name, { tenant: name.slice(0, 1), atMs }),
    );
    const turn = drf.open({ requests, tenants: [rule("a", 2)] }).order(0, NOBODY);
    const order: string[] = [];
    for (let next = turn.next(); next !== undefined; next = turn.next()) {
      order.push(next.jobId);
      turn.noteGrant(next, next.gang.gpus);
    }
    expect(order).toEqual(["a1", "b1", "a2", "a3", "b2"]);
  });
});

describe.each<{ readonly name: string; readonly policy: QueuePolicy }>([
  { name: "fifo", policy: fifo },
  { name: "drf", policy: drf },
  { name: "largest first", policy: largestFirst },
])("$name", ({ policy }) => {
  const lines = fc
    .array(
      fc.record({
        class: fc.constantFrom(...JOB_CLASSES),
        tenant: fc.constantFrom("a", "b", "c"),
        gpus: fc.constantFrom(1, 2, 8),
        atMs: fc.nat(20),
        priority: fc.integer({ min: -1, max: 1 }),
      }),
      { maxLength: 25 },
    )
    .map((all) => all.map((job, at) => pendingOf(`j${at}`, { ...job, runMs: 1 }, at)));
  const held = fc.tuple(fc.nat(9), fc.nat(9), fc.nat(9)).map(([a, b, c]) => ({
    runningGpus: new Map([
      ["training a", a],
      ["training b", b],
      ["inference c", c],
    ]),
  }));

  test("kept, it gives everybody once, in the order of a queue that is opened afresh", () => {
    fc.assert(
      fc.property(lines, lines, fc.array(fc.nat(24)), held, (first, later, gone, facts) => {
        const kept = policy.open({ requests: first, tenants: [] });
        const all = new Map(first.map((request) => [request.jobId, request]));
        for (const request of later) {
          kept.add(request);
          all.set(request.jobId, request);
        }
        for (const at of gone) {
          kept.remove(jobId(`j${at}`));
          all.delete(jobId(`j${at}`));
        }
        const order = idsOf(kept.order(0, facts));
        expect([...order].sort()).toEqual([...all.keys()].map(String).sort());
        const fresh = policy.open({ requests: [...all.values()].reverse(), tenants: [] });
        expect(idsOf(fresh.order(0, facts))).toEqual(order);
      }),
    );
  });
});
