/** @file Offers at six levels: which obstacles each level ignores, and what watts and constraints leave of them. */
import { describe, expect, test } from "vitest";
import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { clusterId } from "../../../domain/values/ids.ts";
import type { Level } from "../../../scheduling/capacity/capacity-state.ts";
import {
  hinderedHosts,
  hostsOf,
  largestAt,
  offersAt,
  optionsFor,
  openCapacity,
} from "../../../scheduling/capacity/capacity.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  fleetShape,
  gpus,
  host,
  leased,
  readyLedger,
  type ClusterSpec,
  type RequestSpec,
} from "../builders.ts";
import { reserved } from "../reservation/reservations.ts";
import { drained, pendingRequest, withReservations } from "../views.ts";

/** Three hosts of eight: 3 GPUs are leased, 2 others reserved, and the last host is drained. */
function busy(spec: ClusterSpec = {}): Ledger {
  const ready = readyLedger(fleetShape([{ hosts: [{}, {}, {}], ...spec }]));
  const some = leased(ready, { job: "run", gpus: 3 }, gpus(["c0/h0", 0b111]));
  return drained(withReservations(some, reserved("next", gpus(["c0/h1", 0b11]))), "c0/h2");
}

/** GPUs by level of the only type that the request can use. */
function gpusAt(ledger: Ledger, spec: RequestSpec = {}, nowMs = 0): Record<Level, number> {
  const capacity = openCapacity(ledger);
  const { types } = optionsFor(capacity, pendingRequest(spec), nowMs);
  const at = (level: Level): number =>
    types.flatMap((type) => offersAt(capacity, type, level)).reduce((sum, o) => sum + o.gpus, 0);
  return {
    ever: at("ever"),
    idle: at("idle"),
    reservable: at("reservable"),
    unleased: at("unleased"),
    unpowered: at("unpowered"),
    now: at("now"),
  };
}

describe("the GPUs of a level", () => {
  const PLENTY = { ever: 24, idle: 16, reservable: 14, unleased: 13, unpowered: 13, now: 11 };
  test.each<{ name: string; ledger: Ledger; spec?: RequestSpec; want: Record<Level, number> }>([
    { name: "are free of the obstacles that it respects", ledger: busy(), want: PLENTY },
    {
      name: "stay within the watts, less those of leases and reservations where these count",
      ledger: busy({ powerWatts: 9 * 700 }),
      want: { ever: 9, idle: 9, reservable: 9, unleased: 6, unpowered: 13, now: 4 },
    },
    {
      name: "stay within the cooling where that is the lesser budget",
      ledger: busy({ powerWatts: 24 * 700, coolingWatts: 4 * 700 }),
      want: { ever: 4, idle: 4, reservable: 4, unleased: 1, unpowered: 13, now: 0 },
    },
    {
      name: "are on hosts that the job does not avoid",
      ledger: busy(),
      spec: { avoidHosts: [host("c0/h0")] },
      want: { ever: 16, idle: 8, reservable: 6, unleased: 8, unpowered: 8, now: 6 },
    },
    {
      name: "are on the hosts that the job names",
      ledger: busy(),
      spec: { constraints: { hosts: [host("c0/h2")] } },
      want: { ever: 8, idle: 0, reservable: 0, unleased: 0, unpowered: 0, now: 0 },
    },
    {
      name: "are none where no host suits the job",
      ledger: busy(),
      spec: { constraints: { gpuTypes: ["B200"] } },
      want: { ever: 0, idle: 0, reservable: 0, unleased: 0, unpowered: 0, now: 0 },
    },
  ])("$name", ({ ledger, spec, want }) => {
    expect(gpusAt(ledger, spec)).toEqual(want);
  });

  test("count those with the least draw first where watts are scarce", () => {
    const hosts = [{ watts: 700 }, { watts: 100 }];
    const ledger = readyLedger(fleetShape([{ hosts, powerWatts: 8 * 100 + 1_500 }]));
    expect(gpusAt(ledger).now).toBe(8 + 2);
  });
});

test("a job keeps off hosts where a job of its tenant with its label runs, except at the levels of an idle fleet", () => {
  const constraints = { antiAffinity: "replica" };
  const ready = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
  const ledger = leased(ready, { job: "run", gpus: 1, constraints }, gpus(["c0/h0", 1]));
  const want = { ever: 16, idle: 16, reservable: 8, unleased: 8, unpowered: 8, now: 8 };
  expect(gpusAt(ledger, { constraints })).toEqual(want);
  expect(gpusAt(ledger, { constraints, tenant: "other" }).now).toBe(15);
  expect(gpusAt(ledger).now).toBe(15);
});

test("hosts in maintenance are offered again when the window is over", () => {
  const [cluster] = fleetShape([{ hosts: [{}, {}] }]).clusters;
  if (cluster === undefined) throw new Error("one cluster");
  const maintenance = [{ hosts: [host("c0/h1")], fromMs: 1_000, toMs: 5_000 }];
  const shape: FleetShape = { ...fleetShape([]), clusters: [{ ...cluster, maintenance }] };
  const ledger = readyLedger(shape);
  const during = { ever: 16, idle: 16, reservable: 8, unleased: 8, unpowered: 8, now: 8 };
  expect(gpusAt(ledger, {}, 2_000)).toEqual(during);
  expect(gpusAt(ledger, {}, 5_000).now).toBe(16);
});

describe("the largest gang of a type", () => {
  const ledger = leased(
    readyLedger(
      fleetShape([
        { hosts: [{}, {}] },
        { hosts: [{ gpus: 16 }], hasFabric: false },
        { hosts: [{}], jurisdiction: "US" },
      ]),
    ),
    { job: "run", gpus: 5 },
    gpus(["c0/h0", 0b11111]),
  );
  test.each<{ constraints: NonNullable<RequestSpec["constraints"]>; want: number }>([
    { constraints: {}, want: 16 },
    { constraints: { isSameFabric: true }, want: 11 },
    { constraints: { isSameHost: true }, want: 16 },
    { constraints: { isSameHost: true, isSameFabric: true }, want: 8 },
    { constraints: { maxClusters: 2 }, want: 27 },
    { constraints: { maxClusters: 3 }, want: 35 },
    { constraints: { maxClusters: 3, jurisdictions: ["EU"] }, want: 27 },
    { constraints: { clusters: [clusterId("c0")] }, want: 11 },
  ])("within $constraints is $want", ({ constraints, want }) => {
    const capacity = openCapacity(ledger);
    const { types } = optionsFor(capacity, pendingRequest({ constraints }), 0);
    expect(types.map((type) => largestAt(capacity, type, "now"))).toEqual([want]);
  });
});

describe("options", () => {
  const shape = fleetShape([
    { hosts: [{ type: "A100" }, { type: "H100" }] },
    { hosts: [{ type: "H100" }] },
  ]);

  test("have one entry a GPU type in the fleet's order, and the hosts of each", () => {
    const { types } = optionsFor(openCapacity(readyLedger(shape)), pendingRequest(), 0);
    const namesOf = types.map((type) => [type.gpuType, ...hostsOf(type).map(({ id }) => id)]);
    expect(namesOf).toEqual([
      ["A100", "c0/h0"],
      ["H100", "c0/h1", "c1/h0"],
    ]);
    expect(types.map((type) => hostsOf(type, clusterId("c1")).length)).toEqual([0, 1]);
  });

  test("are shared by requests of equal constraints, and by no others", () => {
    const capacity = openCapacity(readyLedger(shape));
    const numberOf = (spec: RequestSpec) => optionsFor(capacity, pendingRequest(spec), 0).number;
    const first = numberOf({ job: "a", gpus: 1 });
    expect(numberOf({ job: "b", gpus: 9, tenant: "u" })).toBe(first);
    expect(numberOf({ constraints: { gpuTypes: ["H100"] } })).not.toBe(first);
    expect(numberOf({ avoidHosts: [host("c0/h0")] })).not.toBe(first);
  });
});

test("hosts that take no new work are listed by what hinders them", () => {
  const ledger = drained(readyLedger(fleetShape([{ hosts: [{}, {}, {}] }])), "c0/h0", "c0/h2");
  const { types } = optionsFor(openCapacity(ledger), pendingRequest(), 0);
  expect(types.map((type) => [...hinderedHosts(type)])).toEqual([
    [["drained", [host("c0/h0"), host("c0/h2")]]],
  ]);
});
