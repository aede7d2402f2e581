/** @file The inference headroom: how the demand of inference rises, how much is reserved for it, and which GPUs. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import { openCapacity } from "../../../scheduling/capacity/capacity.ts";
import {
  noteDemand,
  openDemand,
  risesOf,
  SLOT_MS,
  WINDOW_S,
  type DemandBook,
} from "../../../scheduling/ledger/rules/inference-demand.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import { planHeadroom } from "../../../scheduling/reservation/inference-headroom.ts";
import { ask, end, fleetShape, gpus, inbox, leased, readyLedger } from "../builders.ts";
import { ms } from "../../../domain/values/units.ts";
import { caseCount } from "../../support/case-count.ts";

/** The demand at every moment, kept whole. */
function bruteRises(
  changes: readonly (readonly [pauseMs: number, more: number])[],
  { nowMs, leadS }: { readonly nowMs: number; readonly leadS: number },
): readonly number[] {
  const history: (readonly [atMs: number, gpus: number])[] = [];
  let atMs = 0;
  let demand = 0;
  for (const [pauseMs, more] of changes) {
    atMs += pauseMs;
    demand += more;
    history.push([atMs, demand]);
  }
  const firstS = Math.floor((history[0]?.[0] ?? 0) / SLOT_MS);
  const nowS = Math.floor(nowMs / SLOT_MS) - 1;
  const rises: number[] = [];
  for (let second = Math.max(firstS, nowS - WINDOW_S + 1); second <= nowS; second += 1) {
    const start = history.filter(([at]) => at < second * SLOT_MS).at(-1)?.[1] ?? 0;
    const later = history.filter(
      ([at]) => at >= second * SLOT_MS && at < Math.min(second + leadS, nowS + 1) * SLOT_MS,
    );
    rises.push(Math.max(start, ...later.map(([, each]) => each)) - start);
  }
  return rises;
}

describe("the trace of demand", () => {
  test("gives the rises that the whole history gives", () => {
    const changes = fc.array(
      fc.tuple(fc.constantFrom(0, 10, 400, 1_000, 5_000), fc.integer({ min: -3, max: 4 })),
      { minLength: 1, maxLength: 40 },
    );
    fc.assert(
      fc.property(changes, fc.integer({ min: 0, max: 9_000 }), (all, restMs) => {
        const book: DemandBook = { gpus: 0, slots: [] };
        let nowMs = 0;
        for (const [pauseMs, more] of all) {
          nowMs += pauseMs;
          noteDemand(book, more, nowMs);
        }
        nowMs += restMs;
        const span = { nowMs, leadS: 3 };
        expect([...risesOf(book, span)]).toEqual(bruteRises(all, span));
      }),
      { numRuns: caseCount(300) },
    );
  });

  test("forgets what is older than its window", () => {
    const book: DemandBook = { gpus: 0, slots: [] };
    for (let second = 0; second < 3 * WINDOW_S; second += 1) noteDemand(book, 1, second * SLOT_MS);
    expect(book.slots.length).toBeLessThanOrEqual(WINDOW_S);
  });

  test("is kept by the ledger for inference alone, and comes back from its packed form", () => {
    let ledger = readyLedger(fleetShape([{}]));
    ledger = inbox(ledger, [ask({ job: "t", gpus: 4 })], 1_000).ledger;
    expect(ledger.latencyDemand).toBeUndefined();
    ledger = inbox(ledger, [ask({ job: "i", class: "inference", gpus: 2 })], 2_500).ledger;
    ledger = inbox(ledger, [end("i")], 4_100).ledger;
    expect(ledger.latencyDemand).toEqual({
      gpus: 0,
      slots: [
        [2, 0, 2],
        [4, 2, 2],
      ],
    });
    const back = unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as never);
    expect(back.latencyDemand).toEqual(ledger.latencyDemand);
    const { leases, requests } = ledger;
    expect(openDemand({ leases, requests }).gpus).toBe(0);
  });
});

describe("the reserve", () => {
  const shape = {
    ...fleetShape([{ hosts: [{}, {}, {}, {}] }]),
    policy: { ...DEFAULT_POLICY, maxReserveShare: 0.5 },
  };
  /** Four inference jobs of two GPUs arrived within a second. */
  function burst(): Ledger {
    const asked = ["a", "b", "c", "d"].map((job) => ask({ job, class: "inference", gpus: 2 }));
    let ledger = inbox(readyLedger(shape), asked, 10_000).ledger;
    ledger = inbox(
      ledger,
      ["a", "b", "c", "d"].map((job) => end(job)),
      10_500,
    ).ledger;
    return ledger;
  }
  const NOW_MS = 20_000;

  test("is as large as demand has risen, and nothing where no inference came", () => {
    const quiet = readyLedger(shape);
    expect(planHeadroom(quiet, openCapacity(quiet), NOW_MS)).toEqual({
      targetGpus: 0,
      gpus: [],
    });
    const ledger = burst();
    expect(planHeadroom(ledger, openCapacity(ledger), NOW_MS).targetGpus).toBe(8);
  });

  test("covers the rise of demand within the time that a refill takes: a checkpoint's grace, else natural ends", () => {
    let ledger = readyLedger(shape);
    for (const [job, atMs] of [
      ["a", 10_000],
      ["b", 15_000],
    ] as const)
      ledger = inbox(ledger, [ask({ job, class: "inference", gpus: 8 })], atMs).ledger;
    ledger = inbox(ledger, [end("a"), end("b")], 16_500).ledger;
    const targetOf = (of: Ledger): number => planHeadroom(of, openCapacity(of), NOW_MS).targetGpus;
    expect(targetOf(ledger)).toBe(16);
    const training = { job: "x", gpus: 8, checkpoint: { graceMs: ms(2_000) } };
    const place = gpus(["c0/h0", 0xff]);
    expect(targetOf(leased(ledger, training, place))).toBe(8);
    expect(
      targetOf(leased(ledger, { ...training, checkpoint: { graceMs: ms(5_000) } }, place)),
    ).toBe(16);
    const policy = { ...shape.policy, isPreempting: false };
    const peaceful = { ...ledger, shape: { ...shape, policy } };
    expect(targetOf(leased(peaceful, training, place))).toBe(16);
  });

  test("is never above its share of the fleet", () => {
    const ledger = {
      ...burst(),
      shape: { ...shape, policy: { ...DEFAULT_POLICY, maxReserveShare: 0.1 } },
    };
    expect(planHeadroom(ledger, openCapacity(ledger), NOW_MS).targetGpus).toBe(3);
  });

  test("is a whole number of hosts, so that a gang of a host finds its place", () => {
    const asked = [ask({ job: "a", class: "inference", gpus: 3 })];
    let ledger = inbox(readyLedger(shape), asked, 10_000).ledger;
    ledger = inbox(ledger, [end("a")], 10_500).ledger;
    expect(planHeadroom(ledger, openCapacity(ledger), NOW_MS).targetGpus).toBe(8);
  });

  test("takes whole hosts first, then the ones with the most free GPUs", () => {
    let ledger = burst();
    ledger = leased(ledger, { job: "x", gpus: 5 }, gpus(["c0/h0", 0b11111]));
    ledger = leased(ledger, { job: "y", gpus: 7 }, gpus(["c0/h3", 0b1111111]));
    expect(planHeadroom(ledger, openCapacity(ledger), NOW_MS).gpus).toEqual(gpus(["c0/h1", 0xff]));
    ledger = leased(ledger, { job: "z", gpus: 8 }, gpus(["c0/h1", 0xff]));
    ledger = leased(ledger, { job: "w", gpus: 2 }, gpus(["c0/h2", 0b11]));
    expect(planHeadroom(ledger, openCapacity(ledger), NOW_MS).gpus).toEqual(
      gpus(["c0/h2", 0b11111100], ["c0/h0", 0b01100000]),
    );
  });
});
