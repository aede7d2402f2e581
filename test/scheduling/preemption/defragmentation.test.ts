/** @file Moves that open hosts: which gangs are moved, what it costs and wins, and that the plan is carried out as proposed. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { gpuCountOf, type HostGpus } from "../../../domain/lease/lease.ts";
import { ms } from "../../../domain/values/units.ts";
import { apply, checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { decide, DECIDE_POLICIES } from "../../../scheduling/cycle/decide.ts";
import { proposeMoves, type MoveProposal } from "../../../scheduling/preemption/defragmentation.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { unblock } from "../../../scheduling/explain/remedies.ts";
import { DEFAULT_RIGHTS } from "../../../scheduling/preemption/plan-preemption.ts";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import {
  applyPlan,
  ask,
  fleetShape,
  gpus,
  inbox,
  leased,
  planOf,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";
import { viewOf, yielded } from "../preempting.ts";

const NOW_MS = 600_000;
const WAIT_MS = 600_000;
const SHAPE = fleetShape([{ hosts: [{}, {}] }]);

type Held = readonly [job: string, parts: readonly HostGpus[], spec?: RequestSpec];

/** Writes a checkpoint in the time that one is taken to cost, 2 s. */
const CHECKPOINTED: RequestSpec = { checkpoint: { graceMs: ms(30_000) } };
const PINNED: RequestSpec = {
  preemption: { isPreemptible: false, mayShrink: false, minRuntimeMs: ms(0) },
};
const WANTED: RequestSpec = {
  job: "w",
  gpus: 8,
  constraints: { isSameHost: true },
  requestedAtMs: NOW_MS,
};

function busy(shape: FleetShape, held: readonly Held[], waiting: RequestSpec): Ledger {
  let ledger = readyLedger(shape);
  for (const [job, parts, spec = {}] of held)
    ledger = leased(ledger, { job, gpus: gpuCountOf(parts), ...spec }, parts);
  return inbox(ledger, [ask(waiting)], NOW_MS).ledger;
}

function proposed(
  ledger: Ledger,
  waitMs = WAIT_MS,
  isOnlyPaying = false,
): MoveProposal | undefined {
  const request = ledger.requests.get(jobId("w"));
  if (request === undefined) throw new Error("w does not wait");
  const { view, preemption } = viewOf(ledger, NOW_MS);
  const before = masksOf(view.capacity.hosts.values());
  const found = proposeMoves(request, view, {
    preemption,
    place: leastSpread,
    waitMs,
    isOnlyPaying,
  });
  expect(masksOf(view.capacity.hosts.values())).toEqual(before);
  return found;
}

const masksOf = (hosts: Iterable<{ readonly freeMask: number }>): readonly number[] =>
  [...hosts].map(({ freeMask }) => freeMask);

interface Case {
  readonly name: string;
  readonly shape?: FleetShape;
  readonly held: readonly Held[];
  readonly waiting?: RequestSpec;
  /** Jobs and where they go. */
  readonly want: Readonly<Record<string, readonly HostGpus[]>> | undefined;
}

const cases: readonly Case[] = [
  {
    name: "the gang that loses least makes room, and goes where the other one is",
    held: [
      ["a", gpus(["c0/h0", 0x0f])],
      ["b", gpus(["c0/h1", 0xf0]), CHECKPOINTED],
    ],
    want: { b: gpus(["c0/h0", 0xf0]) },
  },
  {
    name: "two small ones rather than one whose work would be lost",
    held: [
      ["a", gpus(["c0/h0", 0x0f])],
      ["b", gpus(["c0/h1", 0x03]), CHECKPOINTED],
      ["c", gpus(["c0/h1", 0x0c]), CHECKPOINTED],
    ],
    want: { b: gpus(["c0/h0", 0x30]), c: gpus(["c0/h0", 0xc0]) },
  },
  {
    name: "no job that does not allow it",
    held: [
      ["a", gpus(["c0/h0", 0x0f]), PINNED],
      ["b", gpus(["c0/h1", 0x0f]), PINNED],
    ],
    want: undefined,
  },
  {
    name: "no job within its protected time",
    held: [
      ["a", gpus(["c0/h0", 0x0f]), PINNED],
      [
        "b",
        gpus(["c0/h1", 0x0f]),
        { preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(NOW_MS + 1) } },
      ],
    ],
    want: undefined,
  },
  {
    name: "nothing where too few GPUs are free: that is for preemption",
    held: [
      ["a", gpus(["c0/h0", 0x1f])],
      ["b", gpus(["c0/h1", 0x0f])],
    ],
    want: undefined,
  },
  {
    name: "out of a cluster that then holds the gang",
    shape: fleetShape([{ hosts: [{}, {}] }, { hosts: [{}] }]),
    held: [
      ["a", gpus(["c0/h0", 0x0f]), CHECKPOINTED],
      ["b", gpus(["c1/h0", 0x0f]), PINNED],
    ],
    waiting: { job: "w", gpus: 14, requestedAtMs: NOW_MS },
    want: { a: gpus(["c1/h0", 0xf0]) },
  },
];

describe("moves", () => {
  test.each(cases)("$name", ({ shape = SHAPE, held, waiting = WANTED, want }) => {
    const found = proposed(busy(shape, held, waiting));
    const moves = found?.moves.map(({ lease, to }) => [lease.jobId, to] as const);
    expect(moves && Object.fromEntries([...moves].sort())).toEqual(want);
  });

  const half: readonly Held[] = [
    ["a", gpus(["c0/h0", 0x0f]), PINNED],
    ["b", gpus(["c0/h1", 0xf0]), CHECKPOINTED],
  ];

  test.each([
    { name: "ten minutes", waitMs: 600_000, wantGain: 8 * 0.94 * 600, wantPays: true },
    { name: "ten seconds", waitMs: 10_000, wantGain: 8 * 0.94 * 10, wantPays: false },
    {
      name: "for ever, without a time limit",
      waitMs: Infinity,
      wantGain: 8 * 0.94 * 3_600,
      wantPays: true,
    },
  ])("are paid by a wait of $name: $wantPays", ({ waitMs, wantGain, wantPays }) => {
    const found = proposed(busy(SHAPE, half, WANTED), waitMs);
    // Four GPUs write a checkpoint of 2 s and are away for 10 s.
    expect(found?.priceGpuSeconds).toBeCloseTo(4 * 12, 6);
    expect(found?.gainGpuSeconds).toBeCloseTo(wantGain, 6);
    expect(found?.doesPay).toBe(wantPays);
  });

  test("cost what the moved gang loses by its new place", () => {
    const shape = fleetShape([{ hosts: [{}, {}, {}] }]);
    const held: readonly Held[] = [
      ["a", gpus(["c0/h0", 0x3f]), PINNED],
      ["b", gpus(["c0/h1", 0x3f]), PINNED],
      ["c", gpus(["c0/h2", 0x0f]), { ...CHECKPOINTED, timeLimitMs: ms(NOW_MS + 100_000) }],
    ];
    const found = proposed(busy(shape, held, WANTED));
    expect(found?.moves.map(({ to }) => to)).toEqual([gpus(["c0/h0", 0xc0], ["c0/h1", 0xc0])]);
    expect(found?.priceGpuSeconds).toBeCloseTo(4 * 12 + 4 * 100 * (1 - 0.62 / 0.94), 6);
  });

  test("are made as proposed: the ledger takes the plan, and every job gets its reserved GPUs", () => {
    const ledger = busy(SHAPE, half, WANTED);
    const found = proposed(ledger);
    if (found === undefined) throw new Error("nothing is proposed");
    const { evict, reserve } = found;
    const planned = applyPlan(ledger, { ...planOf([]), evict, reserve }, NOW_MS);
    expect(planned.refusals).toEqual([]);
    const after = yielded(planned.ledger, NOW_MS + 5_000);
    const nowMs = NOW_MS + 6_000;
    const granted = apply(after, { kind: "plan", plan: decide(after, nowMs), nowMs });
    expect(granted.refusals).toEqual([]);
    expect(checkLedger(granted.ledger)).toEqual([]);
    const held = [...granted.ledger.leases.values()].map(({ jobId: job, gpus: on }) => [job, on]);
    expect(Object.fromEntries(held)).toEqual({
      a: gpus(["c0/h0", 0x0f]),
      b: gpus(["c0/h0", 0xf0]),
      w: gpus(["c0/h1", 0xff]),
    });
  });

  test("are made by a cycle for the request for which they pay, once: the next one waits for them", () => {
    const ledger = busy(SHAPE, half, WANTED);
    const plan = decide(ledger, NOW_MS);
    expect(
      plan.evict?.map(({ lease, forJob }) => [ledger.leases.get(lease)?.jobId, forJob]),
    ).toEqual([["b", "w"]]);
    expect(plan.reserve?.filter(({ gpus: set }) => set.length > 0)).toEqual([
      { jobId: "w", gpus: gpus(["c0/h1", 0xff]), kind: "preemption" },
      { jobId: "b", gpus: gpus(["c0/h0", 0xf0]), kind: "keep" },
    ]);
    const { ledger: after, refusals } = applyPlan(ledger, plan, NOW_MS);
    expect(refusals).toEqual([]);
    expect(decide(after, NOW_MS + 1).evict ?? []).toEqual([]);
    expect(after.reasons.get(jobId("w"))?.code).toBe("WaitingForPreempted");
  });

  test("are not made by a cycle where they do not pay, and said with their price", () => {
    const soon = { timeLimitMs: ms(NOW_MS + 10_000) };
    const ledger = busy(
      SHAPE,
      [
        ["a", gpus(["c0/h0", 0x0f]), { ...PINNED, ...soon }],
        ["b", gpus(["c0/h1", 0xf0]), CHECKPOINTED],
      ],
      WANTED,
    );
    // By the order of service b, which has run for long, would give way; a move would not have to pay then.
    const policies = { ...DECIDE_POLICIES, rights: DEFAULT_RIGHTS };
    const plan = decide(ledger, NOW_MS, {}, { policies });
    expect(plan.evict ?? []).toEqual([]);
    const notified = applyPlan(ledger, plan, NOW_MS).ledger;
    expect(notified.reasons.get(jobId("w"))?.code).toBe("TopologyPlacementFailed");
    const moves = unblock(notified, jobId("w"), { nowMs: NOW_MS }).filter(
      ({ kind }) => kind === "move",
    );
    expect(moves).toEqual([
      {
        kind: "move",
        text: "move lease-2 (b) to c0/h0: 48 GPU-seconds lost, 75 won, done by itself from 2 times the price on",
        lostGpuSeconds: 48,
        gpus: 8,
        clusters: ["c0"],
      },
    ]);
  });

  test("are the same where only such as pay are looked for, or none", () => {
    const shape = fleetShape([{ hosts: [{}, {}, {}] }, { hosts: [{}, {}] }]);
    const names = ["c0/h0", "c0/h1", "c0/h2", "c1/h0", "c1/h1"];
    const masks = fc.constantFrom(0, 0x03, 0x0f, 0x3c, 0x7f, 0xff);
    let paid = 0;
    let unpaid = 0;
    fc.assert(
      fc.property(
        fc.tuple(masks, masks, masks, masks, masks),
        fc.integer({ min: 2, max: 24 }),
        fc.constantFrom(1, 2),
        fc.constantFrom(5_000, 20_000, 60_000, 600_000),
        (chosen, wanted, maxClusters, waitMs) => {
          const held = names.flatMap((name, at): Held[] => {
            const mask = chosen[at] ?? 0;
            return mask === 0 ? [] : [[`j${at}`, gpus([name, mask]), CHECKPOINTED]];
          });
          const waiting = { job: "w", gpus: wanted, constraints: { maxClusters } };
          const ledger = busy(shape, held, waiting);
          const any = proposed(ledger, waitMs);
          const paying = proposed(ledger, waitMs, true);
          if (any?.doesPay === true) {
            paid += 1;
            expect(paying).toEqual(any);
          } else {
            unpaid += any === undefined ? 0 : 1;
            expect(paying?.doesPay ?? true).toBe(true);
          }
        },
      ),
      { numRuns: 1_000 },
    );
    expect(paid).toBeGreaterThan(20);
    expect(unpaid).toBeGreaterThan(20);
  });

  test("never overlap, are no more than eight, and are taken by the ledger whole", () => {
    const shape = fleetShape([{ hosts: [{}, {}, {}] }, { hosts: [{}, {}] }]);
    const names = ["c0/h0", "c0/h1", "c0/h2", "c1/h0", "c1/h1"];
    const masks = fc.constantFrom(0, 0x03, 0x0f, 0x3c, 0x7f);
    fc.assert(
      fc.property(
        fc.tuple(masks, masks, masks, masks, masks),
        fc.boolean(),
        fc.integer({ min: 2, max: 16 }),
        (chosen, isSameHost, wanted) => {
          const held = names.flatMap((name, at): Held[] => {
            const mask = chosen[at] ?? 0;
            return mask === 0 ? [] : [[`j${at}`, gpus([name, mask]), CHECKPOINTED]];
          });
          const waiting = { job: "w", gpus: wanted, constraints: { isSameHost } };
          const ledger = busy(shape, held, waiting);
          const found = proposed(ledger);
          if (found === undefined) return;
          expect(found.moves.length).toBeLessThanOrEqual(8);
          const { evict, reserve } = found;
          const { refusals } = applyPlan(ledger, { ...planOf([]), evict, reserve }, NOW_MS);
          expect(refusals).toEqual([]);
        },
      ),
    );
  });
});
