/** @file The buddy placement: blocks before spread, the least spread where no block holds the gang, and the fleet's choice of it. */
import { describe, expect, it, test } from "vitest";
import type { HostGpus } from "../../../domain/lease/lease.ts";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { placeFor } from "../../../scheduling/cycle/policies.ts";
import { fifo, tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import { buddy } from "../../../scheduling/placement/buddy.ts";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import type { PlaceDemand, PlaceHost } from "../../../scheduling/placement/place-policy.ts";
import { openSpread } from "../../../scheduling/placement/spread.ts";
import { ask, fleetShape, gpus, host, inbox, readyLedger } from "../builders.ts";
import { fleetOf, type RackSpec } from "./fleets.ts";

const ALL = 0b11111111;
const RACKS: readonly RackSpec[] = [
  { cluster: "c0", rack: "r0", hosts: 4 },
  { cluster: "c1", rack: "r0", hosts: 2 },
];

type Free = Readonly<Record<string, number>>;

function asked(free: Free, demand: Partial<PlaceDemand>) {
  const spread = openSpread(fleetOf(RACKS));
  const hosts = Object.entries(free).flatMap(([name, freeMask]): PlaceHost[] => {
    const at = spread.layout.get(host(name));
    return at === undefined ? [] : [{ at, freeMask }];
  });
  const whole = { gpus: 1, maxClusters: 1, isSameHost: false, isSameFabric: false, ...demand };
  return [whole, hosts, { spread }] as const;
}

const place = (free: Free, demand: Partial<PlaceDemand>): readonly HostGpus[] | undefined =>
  buddy(...asked(free, demand)).gpus;

const IDLE: Free = Object.fromEntries(
  ["c0/h0", "c0/h1", "c0/h2", "c0/h3", "c1/h0", "c1/h1"].map((name) => [name, ALL]),
);

describe("blocks", () => {
  it.each([
    ["the smallest that holds it, in any cluster", IDLE, { gpus: 3 }, gpus(["c1/h0", 0b111])],
    [
      "a broken host before a whole one",
      { ...IDLE, "c0/h2": 0b11110000 },
      { gpus: 4 },
      gpus(["c0/h2", 0b11110000]),
    ],
    [
      "aligned halves only: two GPUs of different pairs are no block",
      { "c0/h0": 0b00000110, "c0/h1": 0b11000000 },
      { gpus: 2 },
      gpus(["c0/h1", 0b11000000]),
    ],
    [
      "buddies of hosts: h2 and h3, though h1 and h2 are free as well",
      { "c0/h1": ALL, "c0/h2": ALL, "c0/h3": ALL },
      { gpus: 16 },
      gpus(["c0/h2", ALL], ["c0/h3", ALL]),
    ],
    [
      "one host where the gang may have one alone",
      { "c0/h0": 0b00111111, "c0/h2": ALL },
      { gpus: 6, isSameHost: true },
      gpus(["c0/h2", 0b00111111]),
    ],
  ])("%s", (_name, free, demand, want) => {
    expect(place(free, demand)).toEqual(want);
  });
});

describe("where no block holds the gang", () => {
  test.each([
    ["hosts that are no buddies", { "c0/h1": ALL, "c0/h2": ALL }, { gpus: 16 }],
    ["more than any cluster has", IDLE, { gpus: 40, maxClusters: 2 }],
    ["beside a host that is drained", { ...IDLE, "c0/h3": 0 }, { gpus: 24 }],
    ["watts that the block would exceed", IDLE, { gpus: 9, wattsLeft: { rack: () => 0 } }],
  ])("%s: the place of least spread", (_name, free, demand) => {
    const [want, got] = [leastSpread, buddy].map((policy) => policy(...asked(free, demand)).gpus);
    expect(got).toEqual(want);
  });
});

it("places the grants of a fleet that names it", () => {
  const policy = { ...DEFAULT_POLICY, placement: "buddy" } as const;
  const shape = { ...fleetShape([{ hosts: [{}, {}] }]), policy };
  const specs = [1, 2].map((count, at) =>
    ask({ job: `j${String(at)}`, gpus: count, submittedAtMs: at }),
  );
  const plan = decide(inbox(readyLedger(shape), specs).ledger, 0);
  expect(plan.items.map(({ gpus: parts }) => parts)).toEqual([
    gpus(["c0/h0", 0b1]),
    gpus(["c0/h0", 0b1100]),
  ]);
});

it("is the placement of fleets that name it, under our policies alone", () => {
  const policy = { ...DEFAULT_POLICY, placement: "buddy" } as const;
  expect(placeFor(tawfq, { policy })).toBe(tawfq.placements?.buddy);
  expect(placeFor(tawfq, { policy: DEFAULT_POLICY })).toBe(tawfq.place);
  expect(placeFor(fifo, { policy })).toBe(fifo.place);
});
