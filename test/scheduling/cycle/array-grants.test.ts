/** @file Grants of job arrays: as many gangs as fit, one gang in the queue at a time, and the rest of the request. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { gpuCountOf, popCount } from "../../../domain/lease/lease.ts";
import { apply, checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { fleets, wishes } from "../arbitraries.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gangRequest,
  gpus,
  grantItem,
  inbox,
  planOf,
  readyLedger,
} from "../builders.ts";
import { findGrants } from "../grant-oracle.ts";
import { caseCount } from "../../support/case-count.ts";

const THREE_HOSTS = fleetShape([{ hosts: [{}, {}, {}] }]);

/** Decides and applies until nothing more comes of it. */
function settled(ledger: Ledger, nowMs = 100): Ledger {
  let now = ledger;
  for (let cycle = 0; cycle < 20; cycle += 1) {
    const { ledger: next, refusals, granted } = applyPlan(now, decide(now, nowMs), nowMs);
    expect(refusals).toEqual([]);
    expect(checkLedger(next)).toEqual([]);
    if (granted.length === 0) return next;
    now = next;
  }
  throw new Error("grants never end");
}

const asked = (ledger: Ledger, ...specs: Parameters<typeof ask>[0][]): Ledger =>
  inbox(ledger, specs.map(ask)).ledger;

const slotsOf = (ledger: Ledger, job: string): readonly (number | undefined)[] =>
  [...ledger.leases.values()].filter(({ jobId }) => jobId === job).map(({ slots }) => slots);

const waiting = (ledger: Ledger): Record<string, number | undefined> =>
  Object.fromEntries([...ledger.requests.values()].map(({ jobId, slots }) => [jobId, slots]));

describe("an array alone", () => {
  test.each([
    { name: "less than a host", spec: { slots: 5 }, want: [5], wantWaiting: {} },
    { name: "more than a host", spec: { slots: 20 }, want: [8, 8, 4], wantWaiting: {} },
    { name: "more than there is", spec: { slots: 30 }, want: [8, 8, 8], wantWaiting: { a: 6 } },
    { name: "gangs of three", spec: { slots: 9, gpus: 3 }, want: [2, 2, 2], wantWaiting: { a: 3 } },
    {
      name: "gangs over hosts",
      spec: { slots: 3, gpus: 12 },
      want: [1, 1],
      wantWaiting: { a: 1 },
    },
  ])("of $name gets one lease a host, and waits for the rest", ({ spec, want, wantWaiting }) => {
    const ledger = settled(asked(readyLedger(THREE_HOSTS), { job: "a", ...spec }));
    expect(slotsOf(ledger, "a")).toEqual(want);
    expect(waiting(ledger)).toEqual(wantWaiting);
  });

  test("of thousands of slots over a large fleet takes a few cycles of at most 256 items", () => {
    const hosts = Array.from({ length: 300 }, () => ({}));
    const ledger = asked(readyLedger(fleetShape([{ hosts }])), { job: "a", slots: 3_000 });
    const plan = decide(ledger, 0);
    expect(plan.items).toHaveLength(256);
    const first = applyPlan(ledger, plan);
    expect(first.needsDecision).toBe(true);
    expect(slotsOf(settled(first.ledger), "a")).toHaveLength(300);
  });

  test("gets as many one-GPU gangs as there are ways to grant one, on any fleet", () => {
    const situations = fleets.chain((shape) =>
      fc.record({ shape: fc.constant(shape), demand: wishes }),
    );
    fc.assert(
      fc.property(situations, ({ shape, demand }) => {
        const gang = { min: demand.gpus ?? 1 };
        const spec = { ...demand, gang: { ...demand.gang, ...gang }, job: "a", slots: 50 };
        const { shapes: _none, ...whole } = spec.gang;
        const ledger = settled(asked(readyLedger(shape), { ...spec, gang: whole }));
        const { slots: _array, ...single } = gangRequest({ ...spec, gang: whole });
        const left = findGrants(single, { ledger, nowMs: 100 });
        const canSit = ({ length }: { length: number }): boolean =>
          length === 1 || !fitsOneHost(shape, single.gang.gpus);
        expect(left.filter(canSit)).toEqual([]);
      }),
      { numRuns: caseCount(150) },
    );
  });
});

const fitsOneHost = (shape: Ledger["shape"], size: number): boolean =>
  shape.clusters.some(({ hosts }) => hosts.some(({ gpuCount }) => gpuCount >= size));

describe("arrays and others", () => {
  test("each of two arrays gets a gang before one gets the rest", () => {
    const ledger = settled(
      asked(readyLedger(THREE_HOSTS), { job: "a", slots: 99 }, { job: "b", slots: 99 }),
    );
    const sum = (job: string): number =>
      slotsOf(ledger, job).reduce<number>((all, slots = 0) => all + slots, 0);
    expect(sum("a") + sum("b")).toBe(24);
    expect(Math.min(sum("a"), sum("b"))).toBeGreaterThanOrEqual(1);
  });

  test("a job behind an array waits for one gang of it at most", () => {
    let ledger = settled(asked(readyLedger(THREE_HOSTS), { job: "a", slots: 99 }));
    ledger = settled(asked(ledger, { job: "late", gpus: 8, submittedAtMs: 150 }), 200);
    const [first] = ledger.leases.values();
    if (first === undefined) throw new Error("nothing was granted");
    const over = { ...end("a"), lease: first.id };
    ledger = settled(inbox(ledger, [over]).ledger, 300);
    expect([...ledger.leases.values()].filter(({ jobId }) => jobId === "late")).toHaveLength(0);
    // What the array still wants is as old as its last grant, at 100: the late job is younger, and waits one more lease.
    const [second] = ledger.leases.values();
    ledger = settled(inbox(ledger, [{ ...end("a"), lease: second?.id }]).ledger, 400);
    expect([...ledger.leases.values()].some(({ jobId }) => jobId === "late")).toBe(true);
  });

  test("what others wait for is not filled", () => {
    const busy = asked(readyLedger(THREE_HOSTS), { job: "x", gpus: 4 });
    const ledger = settled(asked(settled(busy), { job: "a", slots: 99 }, { job: "big", gpus: 24 }));
    expect(slotsOf(ledger, "a")).toEqual([1]);
    expect(waiting(ledger)).toEqual({ a: 98, big: undefined });
  });
});

describe("the rules", () => {
  const waitingArray = asked(readyLedger(THREE_HOSTS), { job: "a", slots: 3, gpus: 2 });

  test.each([
    { name: "without slots", slots: undefined, parts: gpus(["c0/h0", 0b11]) },
    { name: "of more slots than asked for", slots: 4, parts: gpus(["c0/h0", 0b11111111]) },
    { name: "of half a gang", slots: 1, parts: gpus(["c0/h0", 0b1]) },
    {
      name: "of two gangs over two hosts",
      slots: 2,
      parts: gpus(["c0/h0", 0b11], ["c0/h1", 0b11]),
    },
    { name: "of no slots", slots: 0, parts: gpus(["c0/h0", 0b11]) },
  ])("refuse a grant $name", ({ slots, parts }) => {
    const item = { ...grantItem("a", parts), ...(slots !== undefined && { slots }) };
    const { refusals, ledger } = applyPlan(waitingArray, planOf([item]));
    expect(refusals.map(({ code }) => code)).toEqual(["GangSizeWrong"]);
    expect(ledger.leases.size).toBe(0);
  });

  test("refuse slots for a request that is no array's", () => {
    const ledger = asked(readyLedger(THREE_HOSTS), { job: "b" });
    const item = { ...grantItem("b", gpus(["c0/h0", 1])), slots: 1 };
    expect(applyPlan(ledger, planOf([item])).refusals).toMatchObject([{ code: "GangSizeWrong" }]);
  });

  test("several items of one plan answer one request, until it is answered", () => {
    const items = [0, 1, 2, 3].map((at) => ({
      ...grantItem("a", gpus([`c0/h${at % 3}`, at < 3 ? 0b11 : 0b1100])),
      slots: 1,
    }));
    const { ledger, refusals } = applyPlan(waitingArray, planOf(items));
    expect(refusals.map(({ code }) => code)).toEqual(["RequestGone"]);
    expect([...ledger.leases.values()].map((lease) => gpuCountOf(lease.gpus))).toEqual([2, 2, 2]);
    expect(ledger.requests.size).toBe(0);
  });

  test("a request for no slots withdraws what waits and leaves the leases alone", () => {
    const part = settled(asked(readyLedger(THREE_HOSTS), { job: "a", slots: 30 }));
    const over = asked(part, { job: "a", slots: 0, seq: 2 });
    expect(over.requests.size).toBe(0);
    expect(slotsOf(over, "a")).toEqual([8, 8, 8]);
    // A late copy of the former request is answered by the leases that it won.
    expect(asked(over, { job: "a", slots: 30 }).requests.size).toBe(0);
    const { ledger } = apply(over, {
      kind: "inbox",
      entries: [end("a", { seq: 2 })],
      nowMs: 0,
    });
    expect(ledger.leases.size).toBe(0);
  });

  test("a host's lease has the GPUs of its slots", () => {
    const ledger = settled(asked(readyLedger(THREE_HOSTS), { job: "a", slots: 5, gpus: 3 }));
    for (const { gpus: parts, slots = 0 } of ledger.leases.values())
      expect(parts.reduce((sum, { mask }) => sum + popCount(mask), 0)).toBe(3 * slots);
  });
});
