/** @file The leases that a request may evict: by which right, and in the order of the loss. */
import { describe, expect, test } from "vitest";
import { ms } from "../../../domain/values/units.ts";
import {
  chooseVictims,
  dueRoom,
  type Right,
} from "../../../scheduling/preemption/victim-choice.ts";
import { fleetShape, gpus, type RequestSpec } from "../builders.ts";
import { requestOf } from "../cycle-parts.ts";
import { viewOf } from "../preempting.ts";
import { busyLedger, choiceFor, jobsOf, NOW_MS, type Held } from "./victims.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const QUOTAS = fleetShape(
  [{ hosts: [{}, {}] }],
  [
    { id: "owner", quota: { H100: 8 }, borrowing: 8 },
    { id: "guest", quota: { H100: 4 }, borrowing: 12 },
  ],
);
const H0 = gpus(["c0/h0", 0xff]);
const H1 = gpus(["c0/h1", 0xff]);
const INFERENCE: RequestSpec = { job: "infer", class: "inference", gpus: 2 };
/** An eviction loses two seconds of work, whenever it comes. */
const CHECKPOINT = { checkpoint: { graceMs: ms(2_000) } };
const rule = (isPreemptible: boolean, minRuntimeMs = 0): RequestSpec => ({
  preemption: { isPreemptible, mayShrink: false, minRuntimeMs: ms(minRuntimeMs) },
});

describe("the victims of a request", () => {
  const cases: readonly {
    readonly name: string;
    readonly shape?: typeof SHAPE;
    readonly held: readonly Held[];
    readonly waiting?: RequestSpec;
    readonly right?: Exclude<Right, "order">;
    readonly want: readonly string[];
  }[] = [
    {
      name: "are ordered by the loss per GPU that it can use",
      held: [
        ["blind", H0],
        ["safe", H1, CHECKPOINT],
      ],
      want: ["safe", "blind"],
    },
    {
      name: "are ordered by wasted GPUs where the loss of each used GPU is equal",
      held: [
        ["two", gpus(["c0/h0", 0b0000_0011])],
        ["one", gpus(["c0/h0", 0b0000_0100])],
        ["four", gpus(["c0/h0", 0b0111_1000])],
        ["rest", gpus(["c0/h0", 0x80], ["c0/h1", 0xff])],
      ],
      waiting: { ...INFERENCE, gpus: 1 },
      want: ["one", "two", "four", "rest"],
    },
    {
      name: "are ordered by the latest grant where all else is equal",
      held: [
        ["first", H0],
        ["second", H1],
      ],
      want: ["second", "first"],
    },
    {
      name: "are not those that forbid it, or are protected still",
      held: [
        ["never", gpus(["c0/h0", 0x0f]), rule(false)],
        ["later", gpus(["c0/h0", 0xf0]), rule(true, NOW_MS + 1)],
        ["now", H1, rule(true, NOW_MS)],
      ],
      want: ["now"],
    },
    {
      name: "are not on hosts that it cannot use",
      shape: fleetShape([{ hosts: [{ type: "A100" }, {}] }]),
      held: [
        ["a100", H0],
        ["h100", H1],
      ],
      waiting: { ...INFERENCE, constraints: { gpuTypes: ["H100"] } },
      want: ["h100"],
    },
    {
      name: "are not of its own tenant in its own class",
      held: [["same", H0]],
      waiting: { job: "more", gpus: 2, priority: 1_000 },
      want: [],
    },
    {
      name: "are of another tenant only as far as that is above its due",
      held: [
        ["large", H0, { tenant: "u" }],
        ["small", gpus(["c0/h1", 0x0f]), { tenant: "u" }],
      ],
      waiting: { job: "more", gpus: 8 },
      want: ["small"],
    },
    {
      name: "are none where the request would be above its due",
      held: [["all", H0, { class: "inference", tenant: "u" }]],
      waiting: { job: "more", gpus: 16 },
      want: [],
    },
    {
      name: "by right of reclaim are those that borrow",
      shape: QUOTAS,
      held: [
        ["lender", gpus(["c0/h0", 0x0f]), { tenant: "owner" }],
        ["borrower", H1, { tenant: "guest" }],
      ],
      waiting: { job: "own", tenant: "owner", gpus: 4 },
      right: "reclaim",
      want: ["borrower"],
    },
    {
      name: "by right of reclaim are none for GPUs above its tenant's own quota",
      shape: QUOTAS,
      held: [
        ["lender", gpus(["c0/h0", 0x0f]), { tenant: "owner" }],
        ["borrower", H1, { tenant: "guest" }],
      ],
      waiting: { job: "own", tenant: "owner", gpus: 5 },
      right: "reclaim",
      want: [],
    },
    {
      name: "by right of reclaim are none that lie within their tenant's own quota",
      shape: QUOTAS,
      held: [["within", gpus(["c0/h1", 0x0f]), { tenant: "guest" }]],
      waiting: { job: "own", tenant: "owner", gpus: 4 },
      right: "reclaim",
      want: [],
    },
    {
      name: "by right of reclaim are none for a tenant without a quota",
      shape: QUOTAS,
      held: [["borrower", H1, { tenant: "guest" }]],
      waiting: { job: "own", tenant: "stranger", gpus: 4 },
      right: "reclaim",
      want: [],
    },
  ];
  test.each(cases)("$name", ({ shape = SHAPE, held, waiting = INFERENCE, right = "due", want }) => {
    const ledger = busyLedger(shape, held, [waiting]);
    const { choice } = choiceFor(ledger, waiting.job ?? "", { right });
    expect(jobsOf(choice.ordered())).toEqual(want);
    if (want.length > 0) expect(choice.isEmpty()).toBe(false);
  });
});

describe("a choice", () => {
  const LEDGER = busyLedger(
    SHAPE,
    [
      ["large", H0, { tenant: "u" }],
      ["small", gpus(["c0/h1", 0x0f]), { tenant: "u" }],
      ["never", gpus(["c0/h1", 0xf0]), rule(false)],
    ],
    [{ job: "more", gpus: 8 }],
  );

  test("allows just the leases that it lists", () => {
    const { choice, preemption } = choiceFor(LEDGER, "more");
    const allowed = [...preemption.victims.all.values()].filter(choice.allows);
    expect(jobsOf(allowed).sort()).toEqual(jobsOf(choice.ordered()).sort());
    expect(jobsOf(choice.ordered())).toEqual(["small"]);
  });

  test("is empty before the end of protected times, and when the plan evicts the leases already", () => {
    const { choice, preemption } = choiceFor(LEDGER, "more", { nowMs: 59_999 });
    expect(choice.isEmpty()).toBe(true);
    for (const id of preemption.victims.all.keys()) preemption.taken.add(id);
    expect(choiceFor(LEDGER, "more").choice.isEmpty()).toBe(false);
    const { holdings, victims: book, taken } = preemption;
    const search = { holdings, book, nowMs: NOW_MS, taken, freeGpus: () => 0 };
    const after = chooseVictims(requestOf(LEDGER, "more"), 8, "due", search);
    expect(after.isEmpty()).toBe(true);
    expect(after.ordered()).toEqual([]);
  });

  test("takes more from a flow the more useless GPUs are free", () => {
    const jobs = (freeGpus: number) =>
      jobsOf(choiceFor(LEDGER, "more", { freeGpus }).choice.ordered());
    expect(jobs(0)).toEqual(["small"]);
    expect(jobs(4)).toEqual(["small", "large"]);
  });

  test("loses the work since the checkpoint that it orders", () => {
    const ledger = busyLedger(SHAPE, [["a", H0, CHECKPOINT]], [INFERENCE]);
    const { choice, preemption } = choiceFor(ledger, "infer");
    const losses = [...preemption.victims.all.values()].map(choice.lossOf);
    expect(losses).toEqual([8 * 2]);
  });
});

test("the due room of a request is what its tenant may still hold in the class", () => {
  const ledger = busyLedger(
    SHAPE,
    [["a", H0, { tenant: "u" }]],
    [
      { job: "more", gpus: 16 },
      { job: "other", tenant: "u", gpus: 16 },
    ],
  );
  const { holdings } = viewOf(ledger, NOW_MS).preemption;
  expect(dueRoom(requestOf(ledger, "more"), holdings)).toBe(8);
  expect(dueRoom(requestOf(ledger, "other"), holdings)).toBeCloseTo(0);
});
