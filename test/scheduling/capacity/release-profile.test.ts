/** @file When GPUs become free: profiles of a cluster and of reserved GPUs, and the time at which enough are free. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clusterId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { optionsFor, openCapacity } from "../../../scheduling/capacity/capacity.ts";
import {
  noteLease,
  noteReservation,
  noteStatus,
} from "../../../scheduling/capacity/capacity-changes.ts";
import { UNKNOWN_END_MS } from "../../../scheduling/capacity/host-pools.ts";
import {
  endOf,
  freeBy,
  outlookOf,
  unreservedIn,
  type EndProfile,
} from "../../../scheduling/capacity/release-profile.ts";
import { tryOut } from "../../../scheduling/capacity/trial.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { caseCount } from "../../support/case-count.ts";
import { fleetShape, gpus, host, leased, readyLedger } from "../builders.ts";
import { reserved } from "../reservation/reservations.ts";
import { drained, pendingRequest, withReservations } from "../views.ts";

/** On h0 two GPUs until 5 s and three until 3 s; on h1 four for an unknown time, and two of the rest reserved. */
function busy(): Ledger {
  let ledger = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
  const runs = [
    { job: "long", timeLimitMs: ms(5_000), parts: gpus(["c0/h0", 0b11]) },
    { job: "short", timeLimitMs: ms(3_000), parts: gpus(["c0/h0", 0b11100]) },
    { job: "open", parts: gpus(["c0/h1", 0b1111]) },
  ];
  for (const { parts, ...spec } of runs) {
    const count = [2, 3, 4][runs.findIndex(({ job }) => job === spec.job)] ?? 0;
    ledger = leased(ledger, { ...spec, gpus: count }, parts);
  }
  return withReservations(ledger, reserved("next", gpus(["c0/h1", 0b11_1000])));
}

const profileOf = (ledger: Ledger): readonly EndProfile[] => {
  const capacity = openCapacity(ledger);
  const { types } = optionsFor(capacity, pendingRequest(), 0);
  return types.map((type) => unreservedIn(type, clusterId("c0")));
};

describe("the profile of a cluster", () => {
  test("counts what is free, then what ends, the earliest first, without what is reserved", () => {
    const ends = [
      { atMs: 3_000, gpus: 3 },
      { atMs: 5_000, gpus: 2 },
      { atMs: UNKNOWN_END_MS, gpus: 3 },
    ];
    expect(profileOf(busy())).toEqual([{ free: 3 + 2, ends }]);
  });

  test("leaves out hosts on which nothing new may start", () => {
    const ends = [{ atMs: UNKNOWN_END_MS, gpus: 3 }];
    expect(profileOf(drained(busy(), "c0/h0"))).toEqual([{ free: 2, ends }]);
  });
});

test("the outlook of reserved GPUs says how many are missing and when the last one is free", () => {
  const capacity = openCapacity(busy());
  const found = outlookOf(gpus(["c0/h0", 0b1000_0110], ["c0/h1", 0]), capacity);
  expect(found).toMatchObject({ lastEndMs: 5_000, missing: 2, opportunistic: 0 });
  expect(found.clusters.get(clusterId("c0"))).toEqual({
    free: 1,
    ends: [
      { atMs: 3_000, gpus: 1 },
      { atMs: 5_000, gpus: 1 },
    ],
  });
  const free = outlookOf(gpus(["c0/h1", 0b1100_0000]), capacity);
  expect(free).toMatchObject({ lastEndMs: -Infinity, missing: 0 });
});

describe("the GPUs of a host that are free by a time", () => {
  test.each([
    { name: "now", at: "c0/h0", atMs: 0, nowMs: 0, want: 0b1110_0000 },
    { name: "after the first end", at: "c0/h0", atMs: 3_000, nowMs: 0, want: 0b1111_1100 },
    { name: "after both ends", at: "c0/h0", atMs: 5_000, nowMs: 0, want: 0b1111_1111 },
    {
      name: "after an end that is overdue",
      at: "c0/h0",
      atMs: 5_000,
      nowMs: 6_000,
      want: 0b1110_0000,
    },
    {
      name: "less those reserved for others",
      at: "c0/h1",
      atMs: 9_000,
      nowMs: 0,
      want: 0b1100_0000,
    },
    {
      name: "with one's own",
      at: "c0/h1",
      atMs: 9_000,
      nowMs: 0,
      ownMask: 0b11_1000,
      want: 0b1111_0000,
    },
  ])("$name", ({ at, want, ...by }) => {
    const found = openCapacity(busy()).hosts.get(host(at));
    if (found === undefined) throw new Error("no such host");
    expect(freeBy(found, by)).toBe(want);
  });

  test("are none on a drained host", () => {
    const found = openCapacity(drained(busy(), "c0/h0")).hosts.get(host("c0/h0"));
    if (found === undefined) throw new Error("no such host");
    expect(freeBy(found, { atMs: 9_000, nowMs: 0 })).toBe(0);
  });
});

describe("the end of a count over several profiles", () => {
  const profiles: fc.Arbitrary<readonly EndProfile[]> = fc.array(
    fc
      .array(fc.record({ atMs: fc.nat(20), gpus: fc.integer({ min: 1, max: 4 }) }), {
        maxLength: 4,
      })
      .map((ends) => ({ free: 0, ends: ends.sort((a, b) => a.atMs - b.atMs) })),
    { maxLength: 3 },
  );

  test("is the first time by which so many have ended, or never", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), profiles, (count, all) => {
        const ends = all.flatMap((profile) => profile.ends);
        const endedBy = (timeMs: number) =>
          ends.reduce((sum, { atMs, gpus: each }) => sum + (atMs <= timeMs ? each : 0), 0);
        const times = Array.from({ length: 21 }, (_, timeMs) => timeMs);
        const want = times.find((timeMs) => endedBy(timeMs) >= count) ?? Infinity;
        expect(endOf(count, all)).toBe(want);
      }),
    );
  });
});

/** Leases of the busy fleet that a trial may take off, and lists of GPUs that it is asked about. */
const LISTS = [
  gpus(["c0/h0", 0b1000_0110]),
  gpus(["c0/h1", 0b1111_1111]),
  gpus(["c0/h0", 0b1], ["c0/h1", 0b11]),
];

test("what is kept until a lease changes is what a fresh look finds, within trials and after them", () => {
  const step = fc.record({
    what: fc.constantFrom("end", "come", "trial", "drain", "reserve", "free"),
    at: fc.nat(2),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      const ledger = busy();
      const capacity = openCapacity(ledger);
      const { types } = optionsFor(capacity, pendingRequest(), 0);
      const leases = [...ledger.leases.values()];
      const next = reserved("next", gpus(["c0/h1", 0b11_1000]));
      const held = new Set(leases);
      const check = (): void => {
        for (const list of LISTS)
          expect(outlookOf(list, capacity)).toEqual(outlookOf([...list], capacity));
        for (const type of types) {
          const anew = { ...type, hosts: new Map() };
          const kept = unreservedIn(type, clusterId("c0"));
          expect(kept).toEqual(unreservedIn(anew, clusterId("c0")));
        }
      };
      for (const { what, at } of steps) {
        const lease = leases[at];
        if (lease === undefined) continue;
        const isHeld = held.has(lease);
        if (what === "end" && isHeld) noteLease(capacity, lease, undefined);
        if (what === "come" && !isHeld) noteLease(capacity, undefined, lease);
        if (what === "end") held.delete(lease);
        if (what === "come") held.add(lease);
        if (what === "trial" && isHeld)
          tryOut(capacity, (trial) => {
            trial.removeLease(lease);
            check();
          });
        const id = host(`c0/h${String(at % 2)}`);
        if (what === "drain") noteStatus(capacity, id, undefined);
        if (what === "free") noteStatus(capacity, id, ledger.hosts.get(id));
        if (what === "reserve") {
          noteReservation(capacity, next, undefined);
          check();
          noteReservation(capacity, undefined, next);
        }
        check();
      }
    }),
    { numRuns: caseCount(100) },
  );
});
