/** @file Which GPUs a request waits for: those on which it ends first; and the necessary condition for something better. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clusterOf, jobId } from "../../../domain/values/ids.ts";
import { gpuCountOf, type HostGpus, type Reservation } from "../../../domain/lease/lease.ts";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { ms } from "../../../domain/values/units.ts";
import { couldImprove } from "../../../scheduling/reservation/improvement-bound.ts";
import { openCapacity } from "../../../scheduling/capacity/capacity.ts";
import {
  isBetter,
  findReservation,
  fitOf,
  type ReservationOption,
} from "../../../scheduling/reservation/plan-reservation.ts";
import type { CycleView } from "../../../scheduling/admission/feasibility.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import {
  ask,
  fleetShape,
  gpus,
  inbox,
  leased,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

const MINUTE_MS = 60_000;
const NOW_MS = MINUTE_MS;

interface Held {
  readonly parts: readonly HostGpus[];
  readonly endMinute: number;
}

/** Leases that were granted at 0 and end by their limits, and `w`, which waits since then. */
function crowded(shape: Parameters<typeof fleetShape>[0], held: readonly Held[], w: RequestSpec) {
  let ledger = readyLedger(fleetShape(shape));
  for (const [at, { parts, endMinute }] of held.entries()) {
    const timeLimitMs = ms(endMinute * MINUTE_MS);
    ledger = leased(ledger, { job: `j${at}`, gpus: gpuCountOf(parts), timeLimitMs }, parts);
  }
  ledger = inbox(ledger, [ask({ job: "w", ...w })], 0).ledger;
  const request = ledger.requests.get(jobId("w"));
  if (request === undefined) throw new Error("w does not wait");
  return { ledger, request };
}

const viewOf = (ledger: Ledger): CycleView => ({
  capacity: openCapacity(ledger),
  claims: new Map(),
  nowMs: NOW_MS,
});

const clustersOf = (plan: ReservationOption | undefined): readonly string[] => [
  ...new Set(plan?.gpus.map(({ host }) => clusterOf(host))),
];

describe("a gang of 16 GPUs waits where it ends first:", () => {
  const elastic = { gpus: 16, gang: { min: 8 } };
  const limit = { timeLimitMs: ms(20 * MINUTE_MS) };

  // The small cluster is free in a minute; there it runs for twice as long.
  it.each([
    { name: "16 GPUs soon", w: { ...elastic, ...limit }, largeMinute: 9, want: ["c0"] },
    { name: "8 GPUs, not 16 late", w: { ...elastic, ...limit }, largeMinute: 13, want: ["c1"] },
    { name: "the same without a limit", w: elastic, largeMinute: 13, want: ["c1"] },
    {
      name: "16 GPUs if it takes no less",
      w: { gpus: 16, ...limit },
      largeMinute: 90,
      want: ["c0"],
    },
  ])("$name", ({ w, largeMinute, want }) => {
    const held = [
      { parts: gpus(["c0/h0", 0xff], ["c0/h1", 0xff]), endMinute: largeMinute },
      { parts: gpus(["c1/h0", 0xff]), endMinute: 2 },
    ];
    const { ledger, request } = crowded([{ hosts: [{}, {}] }, { hosts: [{}] }], held, w);
    expect(clustersOf(findReservation(request, viewOf(ledger), { place: leastSpread }))).toEqual(
      want,
    );
  });
});

describe("the necessary condition for a better reservation", () => {
  const hosts = ["c0/h0", "c0/h1", "c1/h0", "c2/h0", "c2/h1", "c2/h2"];
  const shape = [{ hosts: [{}, {}] }, { hosts: [{}] }, { hosts: [{}, {}, {}] }];
  const held = fc.tuple(
    ...hosts.map((name) =>
      fc.record({
        parts: fc.constantFrom(0, 0x0f, 0xff, 0xff).map((mask) => gpus([name, mask])),
        endMinute: fc.constantFrom(2, 3, 5, 8, 30),
      }),
    ),
  );
  const settings = fc.record({
    gpus: fc.constantFrom(8, 12, 16, 24),
    min: fc.constantFrom(4, 8),
    maxClusters: fc.constantFrom(1, 2),
    timeLimitMs: fc.option(fc.constantFrom(ms(4 * MINUTE_MS), ms(40 * MINUTE_MS)), {
      nil: undefined,
    }),
  });

  it("never says no where the search finds something better", () => {
    let yes = 0;
    let no = 0;
    fc.assert(
      fc.property(held, held, settings, (before, after, { gpus: wanted, min, ...rest }) => {
        const { maxClusters, timeLimitMs } = rest;
        const w = {
          gpus: wanted,
          gang: { min: Math.min(min, wanted) },
          constraints: { maxClusters },
          ...(timeLimitMs !== undefined && { timeLimitMs }),
        };
        const taken = (all: readonly Held[]): readonly Held[] =>
          all.filter(({ parts }) => gpuCountOf(parts) > 0);
        const first = crowded(shape, taken(before), w);
        const own = findReservation(first.request, viewOf(first.ledger), { place: leastSpread });
        if (own === undefined) return;
        const { ledger, request } = crowded(shape, taken(after), w);
        const said = isToldBetter(ledger, request, own.gpus);
        const view = viewOf(ledger);
        const known = fitOf(own.gpus, view);
        const found = findReservation(request, view, { place: leastSpread, known });
        if (said) yes += 1;
        else no += 1;
        if (!said) expect(found !== undefined && isBetter(found, known)).toBe(false);
      }),
      { numRuns: 600 },
    );
    expect(Math.min(yes, no)).toBeGreaterThan(30);
  });

  function isToldBetter(
    ledger: Ledger,
    request: PendingRequest,
    set: Reservation["gpus"],
  ): boolean {
    const { jobId: job } = request;
    const reservation: Reservation = { jobId: job, kind: "backfill", gpus: set, sinceMs: 0 };
    const view = viewOf({ ...ledger, reservations: new Map([[job, reservation]]) });
    return couldImprove(request, fitOf(set, view), view);
  }
});
