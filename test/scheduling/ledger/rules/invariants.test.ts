/** @file The invariants of a ledger: a sound one has no fault, and each kind of damage shows under its number. */
import { expect, test } from "vitest";
import type { Lease } from "../../../../domain/lease/lease.ts";
import { jobId, leaseId, token } from "../../../../domain/values/ids.ts";
import type { Ledger } from "../../../../scheduling/ledger/ledger.ts";
import { checkLedger } from "../../../../scheduling/ledger/rules/invariants.ts";
import { ask, fleetShape, gpus, host, inbox, leased, readyLedger } from "../../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
const ONE = leased(READY, { job: "a", gpus: 2 }, gpus(["c0/h0", 3]));
const TWO = leased(ONE, { job: "b", gpus: 2 }, gpus(["c0/h1", 3]));
const SOUND = inbox(TWO, [ask({ job: "c" })]).ledger;

const withLease = (ledger: Ledger, at: number, change: Partial<Lease>): Ledger => ({
  ...ledger,
  leases: new Map(
    [...ledger.leases].map(([id, lease], index) => [
      id,
      index === at ? { ...lease, ...change } : lease,
    ]),
  ),
});

test("a sound ledger has no fault", () => {
  expect(checkLedger(SOUND)).toEqual([]);
});

const reservation = {
  jobId: jobId("c"),
  kind: "backfill",
  sinceMs: 0,
  gpus: gpus(["c0/h0", 4]),
} as const;
const other = { ...reservation, jobId: jobId("d") };

test.each<{ readonly what: string; readonly ledger: Ledger; readonly want: RegExp }>([
  {
    what: "a GPU in two leases",
    ledger: withLease(SOUND, 1, { gpus: gpus(["c0/h0", 1]) }),
    want: /^1: GPU 0 of c0\/h0/,
  },
  {
    what: "a token from the future",
    ledger: { ...SOUND, nextToken: 1 },
    want: /^1: .*from the future/,
  },
  {
    what: "tokens out of order",
    ledger: { ...SOUND, leases: new Map([...SOUND.leases].reverse()) },
    want: /^1: token 1 comes after 2/,
  },
  {
    what: "an id that is not its token's",
    ledger: withLease(SOUND, 0, { id: leaseId(token(9)) }),
    want: /^1: /,
  },
  {
    what: "hosts without GPUs",
    ledger: withLease(SOUND, 0, { gpus: gpus(["c0/h0", 0]) }),
    want: /^2: /,
  },
  {
    what: "hosts out of order",
    ledger: withLease(SOUND, 0, { gpus: gpus(["c0/h1", 8], ["c0/h0", 8]) }),
    want: /^2: .*not in order/,
  },
  {
    what: "a vacating lease that waits for no host",
    ledger: withLease(SOUND, 0, { state: "vacating", vacatingHosts: [] }),
    want: /^3: /,
  },
  {
    what: "a vacating lease that waits for a host it has not",
    ledger: withLease(SOUND, 0, { state: "vacating", vacatingHosts: [host("c0/h1")] }),
    want: /^3: .*has not/,
  },
  {
    what: "a grant in the outbox without its lease",
    ledger: { ...SOUND, outbox: new Map([[leaseId(token(7)), { reason: "x" }]]) },
    want: /^4: /,
  },
  {
    what: "a reason without a request",
    ledger: {
      ...SOUND,
      reasons: new Map([
        [
          jobId("x"),
          { code: "NoMatchingFlavor", message: "m", holders: [], wakeOn: ["fleet-changed"] },
        ],
      ]) as unknown as Ledger["reasons"],
    },
    want: /^5: .*no request of x/,
  },
  {
    what: "a reservation for a job that waits no more",
    ledger: { ...SOUND, reservations: new Map([[other.jobId, other]]) },
    want: /^7: .*d/,
  },
  {
    what: "a reservation under another job's name",
    ledger: { ...SOUND, reservations: new Map([[jobId("c"), other]]) },
    want: /^7: /,
  },
  { what: "other rules", ledger: { ...SOUND, applyVersion: 99 }, want: /^9: / },
])("$what", ({ ledger, want }) => {
  expect(checkLedger(ledger).some((fault) => want.test(fault))).toBe(true);
});

test("a reservation for a waiting job is sound, twice the same GPU is not", () => {
  const reserved = { ...SOUND, reservations: new Map([[reservation.jobId, reservation]]) };
  expect(checkLedger(reserved)).toEqual([]);
  const both = inbox(reserved, [ask({ job: "d" })]).ledger;
  const twice = {
    ...both,
    reservations: new Map([
      [reservation.jobId, reservation],
      [other.jobId, other],
    ]),
  };
  expect(checkLedger(twice).some((fault) => fault.startsWith("7: GPU 2 of c0/h0"))).toBe(true);
});
