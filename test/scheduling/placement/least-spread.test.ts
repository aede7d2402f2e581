/** @file Where gangs go: what least spread means on small fleets, and which of equals is taken. */
import { describe, expect, test } from "vitest";
import type { HostGpus } from "../../../domain/lease/lease.ts";
import { leastSpread } from "../../../scheduling/placement/least-spread.ts";
import type { PlaceDemand, PlaceHost } from "../../../scheduling/placement/place-policy.ts";
import { openSpread } from "../../../scheduling/placement/spread.ts";
import { gpus, host } from "../builders.ts";
import { fleetOf, HALVES, type RackSpec } from "./fleets.ts";

const ALL = 0b11111111;

type Free = Readonly<Record<string, number>>;

/** Hosts that `free` does not name have nothing to give. */
function place(racks: readonly RackSpec[], free: Free, demand: Partial<PlaceDemand>) {
  const spread = openSpread(fleetOf(racks));
  const hosts = Object.entries(free).flatMap(([name, freeMask]): PlaceHost[] => {
    const at = spread.layout.get(host(name));
    return at === undefined ? [] : [{ at, freeMask }];
  });
  const asked = { gpus: 1, maxClusters: 1, isSameHost: false, isSameFabric: false, ...demand };
  return leastSpread(asked, hosts, { spread }).gpus;
}

interface Row {
  readonly name: string;
  readonly racks: readonly RackSpec[];
  readonly free: Free;
  readonly demand: Partial<PlaceDemand>;
  readonly want: readonly HostGpus[] | undefined;
}

const TWO_RACKS: readonly RackSpec[] = [
  { cluster: "c0", rack: "r0", hosts: 2 },
  { cluster: "c0", rack: "r1", hosts: 2 },
];

const HALVED: readonly RackSpec[] = [{ cluster: "c0", rack: "r0", hosts: 3, kind: HALVES }];

const SITES: readonly RackSpec[] = [
  { site: "s0", cluster: "c0", rack: "r0", hosts: 2 },
  { site: "s0", cluster: "c1", rack: "r0", hosts: 2 },
  { site: "s1", cluster: "c2", rack: "r0", hosts: 2 },
];

const rows: readonly Row[] = [
  {
    name: "one domain of a broken host rather than a whole host",
    racks: HALVED,
    free: { "c0/h0": ALL, "c0/h1": 0b11110011 },
    demand: { gpus: 4 },
    want: gpus(["c0/h1", 0b11110000]),
  },
  {
    name: "a whole host rather than two domains, when 8 are wanted",
    racks: HALVED,
    free: { "c0/h0": 0b11110000, "c0/h1": 0b00001111, "c0/h2": ALL },
    demand: { gpus: 8 },
    want: gpus(["c0/h2", ALL]),
  },
  {
    name: "the smaller of two domains that hold the gang",
    racks: HALVED,
    free: { "c0/h0": 0b00110111 },
    demand: { gpus: 2 },
    want: gpus(["c0/h0", 0b00110000]),
  },
  {
    name: "the host where least is left over",
    racks: TWO_RACKS,
    free: { "c0/h0": 0b111111, "c0/h1": 0b111, "c0/h2": 0b1111 },
    demand: { gpus: 3 },
    want: gpus(["c0/h1", 0b111]),
  },
  {
    name: "a host that is broken already rather than a whole one, though less is left over there",
    racks: [...TWO_RACKS, { cluster: "c0", rack: "r2", hosts: 1, kind: { gpuCount: 4 } }],
    free: { "c0/h0": 0b1111111, "c0/h4": 0b1111 },
    demand: { gpus: 3 },
    want: gpus(["c0/h0", 0b111]),
  },
  {
    name: "the rack that is fuller, so that the other one stays whole",
    racks: TWO_RACKS,
    free: { "c0/h0": ALL, "c0/h1": ALL, "c0/h2": 0b11, "c0/h3": ALL },
    demand: { gpus: 8 },
    want: gpus(["c0/h3", ALL]),
  },
  {
    name: "the lowest ids of equals",
    racks: TWO_RACKS,
    free: { "c0/h3": ALL, "c0/h2": ALL, "c0/h1": ALL, "c0/h0": ALL },
    demand: { gpus: 16 },
    want: gpus(["c0/h0", ALL], ["c0/h1", ALL]),
  },
  {
    name: "more hosts of one rack rather than two racks",
    racks: [
      { cluster: "c0", rack: "r0", hosts: 3 },
      { cluster: "c0", rack: "r1", hosts: 2 },
    ],
    free: { "c0/h0": 0b1111, "c0/h1": 0b1111, "c0/h2": 0b1111, "c0/h3": 0b111111, "c0/h4": 0 },
    demand: { gpus: 12 },
    want: gpus(["c0/h0", 0b1111], ["c0/h1", 0b1111], ["c0/h2", 0b1111]),
  },
  {
    name: "two clusters of a site rather than of two sites",
    racks: SITES,
    free: { "c0/h0": ALL, "c1/h0": ALL, "c2/h0": ALL },
    demand: { gpus: 16, maxClusters: 2 },
    want: gpus(["c0/h0", ALL], ["c1/h0", ALL]),
  },
  {
    name: "nothing when one cluster must hold it and none does",
    racks: SITES,
    free: { "c0/h0": ALL, "c1/h0": ALL, "c2/h0": ALL },
    demand: { gpus: 16 },
    want: undefined,
  },
  {
    name: "another rack when the watts of the first are spent",
    racks: TWO_RACKS,
    free: { "c0/h0": ALL, "c0/h1": ALL, "c0/h2": ALL },
    demand: {
      gpus: 8,
      wattsLeft: { rack: ({ rackName }) => (rackName === "r0" ? 7 * 700 : Infinity) },
    },
    want: gpus(["c0/h2", ALL]),
  },
  {
    name: "two racks when neither has the watts for it alone",
    racks: TWO_RACKS,
    free: { "c0/h0": ALL, "c0/h1": ALL, "c0/h2": ALL },
    demand: { gpus: 8, wattsLeft: { rack: () => 5 * 700 } },
    want: gpus(["c0/h0", 0b11111], ["c0/h2", 0b111]),
  },
  {
    name: "nothing when the site's watts are spent",
    racks: SITES,
    free: { "c0/h0": ALL, "c1/h0": ALL },
    demand: { gpus: 12, maxClusters: 2, wattsLeft: { site: () => 11 * 700 } },
    want: undefined,
  },
];

describe("least spread takes", () => {
  test.each(rows)("$name", ({ racks, free, demand, want }) => {
    expect(place(racks, free, demand)).toEqual(want);
  });

  test("small gangs fill the broken hosts before they break a whole one", () => {
    const spread = openSpread(fleetOf([{ cluster: "c0", rack: "r0", hosts: 6 }]));
    const layouts = [...spread.layout.values()];
    const free = [ALL, 0b11, ALL, 0b111111, 0b1111, ALL];
    const demand = { maxClusters: 1, isSameHost: false, isSameFabric: false };
    for (const count of [1, 1, 2, 2, 4, 2]) {
      const hosts = layouts.map((at, index) => ({ at, freeMask: free[index] ?? 0 }));
      for (const part of leastSpread({ ...demand, gpus: count }, hosts, { spread }).gpus ?? []) {
        const index = layouts.findIndex(({ host: id }) => id === part.host);
        free[index] = (free[index] ?? 0) & ~part.mask;
      }
    }
    expect(free).toEqual([ALL, 0, ALL, 0, 0, ALL]);
  });
});
