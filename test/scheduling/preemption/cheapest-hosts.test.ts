/** @file The cheapest victims on single hosts: enough, none too many, and the cheapest host first. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { gpuCountOf } from "../../../domain/lease/lease.ts";
import { parseHostId } from "../../../domain/values/ids.ts";
import { cheapestHosts } from "../../../scheduling/preemption/cheapest-hosts.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import type { VictimChoice } from "../../../scheduling/preemption/victim-choice.ts";
import { fleetShape, gpus, type RequestSpec } from "../builders.ts";
import { requestOf } from "../cycle-parts.ts";
import { viewOf } from "../preempting.ts";
import { reserved } from "../reservation/reservations.ts";
import { drained, withReservations } from "../views.ts";
import { busyLedger, jobsOf, NOW_MS, type Held } from "./victims.ts";
import { caseCount } from "../../support/case-count.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);

/** Every lease may be evicted; its loss is by its job's name, one GPU-second a GPU unless `losses` says otherwise. */
function found(
  ledger: Ledger,
  wanted: number,
  losses: Readonly<Record<string, number>> = {},
  keepers: readonly string[] | (() => readonly string[]) = [],
) {
  const { view, preemption } = viewOf(ledger, NOW_MS);
  const choice: VictimChoice = {
    isEmpty: () => false,
    allows: ({ lease }) => losses[lease.jobId] !== Infinity,
    lossOf: ({ lease, gpus: count }) => losses[lease.jobId] ?? count,
    ordered: () => [],
  };
  const request = requestOf(ledger, "next");
  const sets = cheapestHosts({
    ...{ request, wanted, view, choice, book: preemption.victims },
    keepers: () => new Set((typeof keepers === "function" ? keepers() : keepers).map(parseHostId)),
  });
  return sets.map(({ host, victims, lost, gpus: count }) => ({
    host: host.id,
    jobs: jobsOf(victims).sort(),
    lost,
    gpus: count,
  }));
}

const HELD: readonly Held[] = [
  ["a", gpus(["c0/h0", 0b0000_0011])],
  ["b", gpus(["c0/h0", 0b0001_1100])],
  ["c", gpus(["c0/h0", 0b1110_0000])],
  ["d", gpus(["c0/h1", 0b0000_1111])],
  ["e", gpus(["c0/h1", 0b0111_0000])],
];
const NEXT: RequestSpec = { job: "next", class: "inference", gpus: 1 };
const LEDGER = busyLedger(SHAPE, HELD, [NEXT]);

describe("the sets of victims", () => {
  test("make room on each host with what is free, the cheapest host first", () => {
    expect(found(LEDGER, 4, { a: 1, b: 9, c: 2, d: 5, e: 4 })).toEqual([
      { host: "c0/h0", jobs: ["a", "c"], lost: 3, gpus: 5 },
      { host: "c0/h1", jobs: ["e"], lost: 4, gpus: 3 },
    ]);
  });

  test("spare those that later ones made unnecessary", () => {
    expect(found(LEDGER, 4, { a: 1, b: Infinity, c: 4, d: 20, e: 2.9 })[0]).toMatchObject({
      jobs: ["e"],
    });
    expect(found(LEDGER, 5, { a: 1, d: 5, e: 3 })[0]).toMatchObject({
      host: "c0/h0",
      jobs: ["a", "c"],
    });
    expect(found(LEDGER, 5, { d: 4.1, e: 3 })).toContainEqual({
      host: "c0/h1",
      jobs: ["d"],
      lost: 4.1,
      gpus: 4,
    });
  });

  test("go by the fewest GPUs, then the latest grant, where the loss is equal", () => {
    expect(found(LEDGER, 3, { a: 3, b: 3, c: 3, d: 3, e: 3 })).toMatchObject([
      { host: "c0/h1", jobs: ["e"] },
      { host: "c0/h0", jobs: ["c"] },
    ]);
  });

  test("go by what hosts keep of the gang's model where loss and GPUs are equal, and never before them", () => {
    const held: readonly Held[] = [
      ["a", gpus(["c0/h0", 0b0000_0111])],
      ["b", gpus(["c0/h0", 0b1111_1000])],
      ["c", gpus(["c0/h1", 0b0000_0111])],
      ["d", gpus(["c0/h1", 0b1111_1000])],
    ];
    const ledger = busyLedger(SHAPE, held, [NEXT]);
    const firstHost = (keepers: readonly string[], { a = 3, c = 3 } = {}) =>
      found(ledger, 3, { a, c, b: Infinity, d: Infinity }, keepers)[0]?.host;
    expect(firstHost([])).toBe("c0/h1");
    expect(firstHost(["c0/h0"])).toBe("c0/h0");
    expect(firstHost(["c0/h0"], { a: 4 })).toBe("c0/h1");
  });

  test("are none on hosts that are too small, drained, or have room already", () => {
    const hostsFor = (ledger: Ledger, wanted: number) =>
      found(ledger, wanted).map(({ host }) => host);
    expect(hostsFor(LEDGER, 9)).toEqual([]);
    expect(hostsFor(LEDGER, 1)).toEqual(["c0/h0"]);
    expect(hostsFor(drained(LEDGER, "c0/h0"), 4)).toEqual(["c0/h1"]);
  });

  test("are none where the victims on the host do not suffice", () => {
    const allowed = { a: 1, b: Infinity, c: Infinity, d: Infinity, e: 1 };
    expect(found(LEDGER, 3, allowed)).toMatchObject([{ host: "c0/h1", jobs: ["e"] }]);
    expect(found(LEDGER, 5, allowed)).toEqual([]);
  });

  test("gain nothing from GPUs that are reserved for another job", () => {
    const ledger = withReservations(LEDGER, reserved("x", gpus(["c0/h0", 0b1110_0000])));
    expect(found(ledger, 3, { a: 9, b: 9, c: 1, d: 99, e: 99 })).toMatchObject([
      { host: "c0/h0", jobs: ["b"] },
      { host: "c0/h1" },
    ]);
    expect(found(ledger, 6, { d: Infinity })).toEqual([]);
  });
});

test("every set suffices, and without any of its victims it would not", () => {
  const losses = fc.record({
    a: fc.integer({ min: 1, max: 9 }),
    b: fc.integer({ min: 1, max: 9 }),
    c: fc.integer({ min: 1, max: 9 }),
    d: fc.integer({ min: 1, max: 9 }),
    e: fc.integer({ min: 1, max: 9 }),
  });
  const sizes = new Map(HELD.map(([job, parts]) => [job, gpuCountOf(parts)]));
  const free: Readonly<Record<string, number>> = { "c0/h0": 0, "c0/h1": 1 };
  fc.assert(
    fc.property(losses, fc.integer({ min: 1, max: 8 }), (lossOf, wanted) => {
      for (const { host, jobs, lost } of found(LEDGER, wanted, lossOf)) {
        const gained = jobs.reduce((sum, job) => sum + (sizes.get(job) ?? 0), free[host] ?? 0);
        expect(gained).toBeGreaterThanOrEqual(wanted);
        for (const job of jobs) expect(gained - (sizes.get(job) ?? 0)).toBeLessThan(wanted);
        const names = Object.entries(lossOf).filter(([job]) => jobs.some((each) => each === job));
        expect(lost).toBe(names.reduce((sum, [, loss]) => sum + loss, 0));
      }
    }),
    { numRuns: caseCount(40) },
  );
});

test.each([
  { loss: "the same", losses: {}, want: 1 },
  { loss: "less on one", losses: { a: 2, b: 3, c: 4 }, want: 0 },
])("who keeps the model is asked $want times where $loss is lost", ({ losses, want }) => {
  const shape = fleetShape([{ hosts: [{}, {}, {}] }]);
  const held = ["a", "b", "c"].map((job, at): Held => [job, gpus([`c0/h${at}`, 0b1111])]);
  let times = 0;
  const keepers = (): readonly string[] => {
    times += 1;
    return ["c0/h1"];
  };
  const [first] = found(busyLedger(shape, held, [{ ...NEXT, gpus: 5 }]), 5, losses, keepers);
  expect([first?.host, times]).toEqual([want === 1 ? "c0/h1" : "c0/h0", want]);
});

test("hosts go by loss, GPUs and what they keep, as a sort by these three says", () => {
  const loss = fc.integer({ min: 1, max: 2 });
  const shape = fleetShape([{ hosts: [{}, {}, {}, {}] }]);
  const hosts = ["c0/h0", "c0/h1", "c0/h2", "c0/h3"];
  const held = hosts.map((host): Held => [host, gpus([host, 0b1111])]);
  const ledger = busyLedger(shape, held, [{ ...NEXT, gpus: 5 }]);
  fc.assert(
    fc.property(fc.tuple(loss, loss, loss, loss), fc.subarray(hosts), (losses, keepers) => {
      const lossOf = Object.fromEntries(hosts.map((host, at) => [host, losses[at] ?? 1]));
      const sets = found(ledger, 5, lossOf, keepers);
      const rank = (host: string): number =>
        2 * (lossOf[host] ?? 0) + Number(!keepers.includes(host));
      expect(sets.map(({ host }) => rank(host))).toEqual(hosts.map(rank).sort((a, b) => a - b));
    }),
    { numRuns: caseCount(40) },
  );
});
