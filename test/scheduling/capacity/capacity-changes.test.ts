/** @file Changes of a capacity: noted one by one they give what a fresh look at the ledger gives, and undone they leave no trace. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { GpuNeed } from "../../../domain/job/job-resources.ts";
import type { HostGpus, Lease } from "../../../domain/lease/lease.ts";
import { jobId, leaseId, tenantId, token } from "../../../domain/values/ids.ts";
import {
  endAt,
  noteGrant,
  noteLease,
  noteReservation,
  noteStatus,
  undoGrant,
} from "../../../scheduling/capacity/capacity-changes.ts";
import { versionsOf, type Capacity } from "../../../scheduling/capacity/capacity-state.ts";
import { wattsLeft, openCapacity } from "../../../scheduling/capacity/capacity.ts";
import { tryOut } from "../../../scheduling/capacity/trial.ts";
import { UNKNOWN_END_MS } from "../../../scheduling/capacity/host-pools.ts";
import { rollback, withTrial } from "../../../scheduling/reservation/trial.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { caseCount } from "../../support/case-count.ts";
import { fleetShape, gpus, host, hostNames, leased, readyLedger } from "../builders.ts";
import { openSet, reserved } from "../reservation/reservations.ts";
import { drained, gpusDrained, withReservations } from "../views.ts";

const SHAPE = fleetShape(
  [{ hosts: [{ cpus: 64 }, { cpus: 64, hostMemoryGiB: 512 }], powerWatts: 20_000 }],
  [{ id: "t", quota: { H100: 16 } }],
);
const READY = readyLedger(SHAPE);
const H0 = gpus(["c0/h0", 0b1111]);

const nonZero = (counts: ReadonlyMap<string, number> = new Map()) =>
  [...counts].filter(([, count]) => count !== 0).sort();

/** All that can be read of a capacity, but for its versions. */
const readingOf = ({ pools, usage, reserved: { masks, byJob }, keptWatts }: Capacity) => ({
  hosts: pools.flatMap(({ hosts }) =>
    hosts.map(({ id, leasedMask, reservedMask, freeMask, strandedMask, hostCondition, holds }) => ({
      id,
      masks: [leasedMask, reservedMask, freeMask, strandedMask],
      hostCondition,
      holds: [...holds].sort(([a], [b]) => (a < b ? -1 : 1)),
    })),
  ),
  tallies: pools.map(({ tallies }) => Object.values(tallies).map((tally) => tally.gpus)),
  watts: nonZero(usage.watts),
  quota: nonZero(usage.quota.get(tenantId("t"))),
  taken: nonZero(usage.taken),
  reserved: { masks: nonZero(masks), jobs: [...byJob.keys()].sort() },
  keptWatts: nonZero(keptWatts),
});

const [LEASE] = leased(READY, { job: "a", gpus: 4 }, H0).leases.values();

function leaseOf(job: string, number: number, gpuSets: readonly HostGpus[]): Lease {
  if (LEASE === undefined) throw new Error("a lease was granted");
  const id = leaseId(token(number));
  return { ...LEASE, id, token: token(number), jobId: jobId(job), gpus: gpuSets };
}

const splits = fc.array(fc.nat(255), { minLength: 4, maxLength: 4 });

/** What the GPUs of a lease take each: their shares are 8 processors and 64 GiB. */
const needs = fc.option(
  fc.record(
    { cpus: fc.constantFrom(1, 12, 20, 40), memoryGiB: fc.constantFrom(8, 100, 300) },
    { requiredKeys: [] },
  ),
  { nil: undefined },
);

/** Two leases that share no GPU, two reservations that share none, and perhaps a drained host, or drained GPUs. */
const ledgers: fc.Arbitrary<Ledger> = fc
  .record({
    leases: splits,
    reservations: splits,
    needs: fc.tuple(needs, needs),
    isDrained: fc.boolean(),
    broken: fc.nat(7),
  })
  .map(({ leases, reservations, needs: [needA, needB], isDrained, broken }) => {
    const [a, b] = disjoint(leases);
    const [x, y] = disjoint(reservations);
    const ledger = {
      ...withReservations(READY, reserved("x", x), reserved("y", y)),
      leases: new Map(
        [needing(leaseOf("a", 1, a), needA), needing(leaseOf("b", 2, b), needB)].map((each) => [
          each.id,
          each,
        ]),
      ),
    };
    const whole = isDrained ? drained(ledger, "c0/h1") : ledger;
    return broken === 0 ? whole : gpusDrained(whole, "c0/h0", broken);
  });

const needing = ({ terms: _terms, ...lease }: Lease, resources: GpuNeed | undefined): Lease =>
  resources === undefined ? lease : { ...lease, resources };

const disjoint = ([a = 0, b = 0, c = 0, d = 0]: readonly number[]) =>
  [parts(a, b), parts(c & ~a, d & ~b)] as const;

const parts = (h0: number, h1: number): readonly HostGpus[] =>
  gpus(["c0/h0", h0], ["c0/h1", h1]).filter(({ mask }) => mask !== 0);

test("a capacity that follows the changes from one ledger to another is that of the other", () => {
  fc.assert(
    fc.property(ledgers, ledgers, (before, after) => {
      const capacity = openCapacity(before);
      for (const lease of before.leases.values()) noteLease(capacity, lease, undefined);
      for (const each of before.reservations?.values() ?? [])
        noteReservation(capacity, each, undefined);
      for (const each of after.reservations?.values() ?? [])
        noteReservation(capacity, undefined, each);
      // A fresh look has leases first.
      for (const lease of after.leases.values()) noteLease(capacity, undefined, lease);
      for (const name of hostNames(SHAPE))
        noteStatus(capacity, host(name), after.hosts.get(host(name)));
      expect(readingOf(capacity)).toEqual(readingOf(openCapacity(after)));
    }),
  );
});

describe("a lease that changes but holds what it held", () => {
  const before = leaseOf("a", 1, H0);
  const capacityOf = (lease: Lease): Capacity =>
    openCapacity({ ...READY, leases: new Map([[lease.id, lease]]) });

  test.each<{ name: string; change: Partial<Lease>; isSame: boolean }>([
    { name: "is delivered", change: { state: "held" }, isSame: true },
    { name: "has a checkpoint", change: { checkpointedAtMs: 5 }, isSame: true },
    { name: "waits for its hosts", change: { state: "vacating" }, isSame: false },
    { name: "has lost all hosts", change: { vacatingHosts: [] }, isSame: false },
    { name: "says what it takes", change: { resources: { cpus: 1 } }, isSame: false },
    { name: "is of another time", change: { grantedAtMs: 7 }, isSame: false },
    { name: "has other GPUs", change: { gpus: gpus(["c0/h0", 0b11]) }, isSame: false },
  ])("$name: versions stay only where nothing is other", ({ change, isSame }) => {
    const former = change.resources === undefined ? before : needing(before, undefined);
    const after: Lease = { ...former, ...change };
    const capacity = capacityOf(former);
    const versions = versionsOf(capacity);
    noteLease(capacity, former, after);
    expect(readingOf(capacity)).toEqual(readingOf(capacityOf(after)));
    if (isSame) expect(versionsOf(capacity)).toEqual(versions);
    else expect(versionsOf(capacity)).not.toEqual(versions);
  });
});

/** So what is remembered at a version holds after a trial, too. */
test("a trial that is taken back leaves the capacity as it was, at its version", () => {
  fc.assert(
    fc.property(
      ledgers,
      fc.subarray(["a", "b"]),
      fc.subarray(["x", "y"]),
      (ledger, gone, freed) => {
        const { view, reservations } = openSet(ledger, [...(ledger.reservations?.values() ?? [])]);
        const { capacity } = view;
        const before = { reading: readingOf(capacity), versions: versionsOf(capacity) };
        withTrial(reservations, (release) => {
          for (const job of freed) release(jobId(job));
          return rollback(
            tryOut(capacity, (trial) => {
              for (const lease of ledger.leases.values())
                if (gone.includes(lease.jobId)) trial.removeLease(lease);
            }),
          );
        });
        expect({ reading: readingOf(capacity), versions: versionsOf(capacity) }).toEqual(before);
      },
    ),
    { numRuns: caseCount(300) },
  );
});

describe("a grant that is not a lease yet", () => {
  const grant = { name: "grant 0", tenant: tenantId("t"), gpus: H0, endAtMs: 9_000 };

  test("takes its GPUs, quota and watts until it is undone", () => {
    const capacity = openCapacity(READY);
    const [cluster] = SHAPE.clusters;
    if (cluster === undefined) throw new Error("one cluster");
    const before = readingOf(capacity);
    noteGrant(capacity, grant);
    const at = capacity.hosts.get(host("c0/h0"));
    expect([at?.leasedMask, at?.freeMask]).toEqual([0b1111, 0b1111_0000]);
    expect(at?.holds.get("grant 0")).toMatchObject({ mask: 0b1111, endAtMs: 9_000 });
    expect(wattsLeft(capacity, cluster)).toBe(20_000 - 4 * 700);
    expect(capacity.usage.quota.get(tenantId("t"))?.get("H100")).toBe(4);
    undoGrant(capacity, grant);
    expect(readingOf(capacity)).toEqual(before);
  });
});

test("watts are kept for reserved GPUs as long as no lease draws them", () => {
  const capacity = openCapacity(withReservations(READY, reserved("x", H0)));
  const keptWatts = () => capacity.keptWatts.get("c0");
  expect(keptWatts()).toBe(4 * 700);
  const lease = leaseOf("a", 1, gpus(["c0/h0", 0b1100_0011]));
  noteLease(capacity, undefined, lease);
  expect(keptWatts()).toBe(2 * 700);
  noteLease(capacity, lease, undefined);
  expect(keptWatts()).toBe(4 * 700);
});

describe("versions", () => {
  test.each<{ name: string; change: (capacity: Capacity) => void; want: readonly boolean[] }>([
    {
      name: "a reservation changes that of all alone",
      change: (capacity) => noteReservation(capacity, undefined, reserved("x", H0)),
      want: [true, false, false],
    },
    {
      name: "a lease changes that of leases too",
      change: (capacity) => noteLease(capacity, undefined, leaseOf("a", 1, H0)),
      want: [true, true, false],
    },
    {
      name: "a host's condition changes all three",
      change: (capacity) => noteStatus(capacity, host("c0/h0"), undefined),
      want: [true, true, true],
    },
    {
      name: "a condition that stays changes none",
      change: (capacity) => noteStatus(capacity, host("c0/h0"), READY.hosts.get(host("c0/h0"))),
      want: [false, false, false],
    },
    {
      name: "new terms of the same reserved GPUs change none",
      change: (capacity) => {
        const same = reserved("a", H0);
        noteReservation(capacity, same, { ...same, usableUntilMs: 5 });
      },
      want: [false, false, false],
    },
  ])("$name", ({ change, want }) => {
    const capacity = openCapacity(READY);
    const versions = () => [capacity.version, capacity.leaseVersion, capacity.hostVersion];
    const before = versions();
    change(capacity);
    expect(versions().map((version, at) => version > (before[at] ?? 0))).toEqual(want);
  });
});

test("a hold ends with its time limit, or after all that are known, the oldest first", () => {
  expect(endAt(1_000, 500)).toBe(1_500);
  expect(endAt(1_000, undefined)).toBe(UNKNOWN_END_MS + 1_000);
  const capacity = openCapacity({
    ...READY,
    leases: new Map([[leaseId(token(1)), { ...leaseOf("a", 1, H0), state: "vacating" as const }]]),
  });
  expect([...(capacity.hosts.get(host("c0/h0"))?.holds.values() ?? [])]).toMatchObject([
    { endAtMs: 0 },
  ]);
});
