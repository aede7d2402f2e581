/** @file Leases that the ledger had lost: a run that a host reports is kept for its job, and a claim never takes GPUs of another lease. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { HostGpus, Lease, LeaseFact } from "../../../../domain/lease/lease.ts";
import { jobId, leaseId, runId, tenantId, token } from "../../../../domain/values/ids.ts";
import { adoptLease, assertLease } from "../../../../scheduling/ledger/apply/orphan-leases.ts";
import {
  closeTransaction,
  openTransaction,
  type LedgerTransaction,
} from "../../../../scheduling/ledger/apply/transaction.ts";
import type { Applied, Ledger } from "../../../../scheduling/ledger/ledger.ts";
import { checkLedger } from "../../../../scheduling/ledger/rules/invariants.ts";
import { ask, fleetShape, gpus, host, inbox, leased, readyLedger } from "../../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
/** Its fleet recovers, and gives tokens from a hundred on itself. */
const LOST: Ledger = { ...READY, recovery: { tokensBelow: 100 + 2 ** 20 } };
const H0 = host("c0/h0");
const H1 = host("c0/h1");

const fact = (
  number: number,
  parts: readonly HostGpus[],
  of: { job?: string; run?: string } = {},
) =>
  ({
    id: leaseId(token(number)),
    token: token(number),
    jobId: jobId(of.job ?? "a"),
    runId: runId(of.run ?? `${of.job ?? "a"}-run1`),
    seq: 1,
    class: "training",
    tenant: tenantId("t"),
    gpus: parts,
    grantedAtMs: 5,
    requestedAtMs: 4,
  }) satisfies LeaseFact;

function after(ledger: Ledger, change: (transaction: LedgerTransaction) => void): Applied {
  const transaction = openTransaction(ledger);
  change(transaction);
  const applied = closeTransaction(transaction);
  expect(checkLedger(applied.ledger)).toEqual([]);
  return applied;
}

/** `lease-7 held? c0/h0:3`: with a question mark while its job has not claimed it. */
const linesOf = ({ leases }: Ledger): readonly string[] =>
  [...leases.values()].map(
    ({ id, state, isUnconfirmed, gpus: parts }: Lease) =>
      `${id} ${state}${isUnconfirmed === true ? "?" : ""} ${parts.map((part) => `${part.host}:${part.mask}`).join(" ")}`,
  );

const TWO_HOSTS = fact(7, gpus(["c0/h0", 3], ["c0/h1", 3]));

describe("a run that a host reports", () => {
  test("is a lease on that host alone, and grows with the next host that reports it", () => {
    const one = after(READY, (transaction) => adoptLease(transaction, TWO_HOSTS, H1)).ledger;
    expect(linesOf(one)).toEqual(["lease-7 held? c0/h1:3"]);
    expect(one.nextToken).toBe(8);
    const both = after(one, (transaction) => adoptLease(transaction, TWO_HOSTS, H0)).ledger;
    expect(linesOf(both)).toEqual(["lease-7 held? c0/h0:3 c0/h1:3"]);
    expect(after(both, (transaction) => adoptLease(transaction, TWO_HOSTS, H0)).ledger).toBe(both);
  });

  test("answers the request of its run", () => {
    const asked = inbox(READY, [ask({ gpus: 4 })]).ledger;
    const { ledger } = after(asked, (transaction) => adoptLease(transaction, TWO_HOSTS, H0));
    expect(ledger.requests.size).toBe(0);
  });

  test("is to end there when another run of its job is in force", () => {
    const asked = inbox(READY, [ask({ run: "a-run2", seq: 1 })]).ledger;
    const { ledger } = after(asked, (transaction) => adoptLease(transaction, TWO_HOSTS, H0));
    expect(linesOf(ledger)).toEqual(["lease-7 vacating c0/h0:3"]);
    expect(ledger.requests.size).toBe(1);
  });

  test.each([
    { name: "its GPUs are leased", of: fact(7, gpus(["c0/h0", 3])), at: H0 },
    { name: "the host is not of the lease", of: fact(7, gpus(["c0/h1", 3])), at: H0 },
    { name: "the fleet has no such host", of: fact(7, gpus(["c9/h9", 1])), at: host("c9/h9") },
  ])("changes nothing where $name", ({ of, at }) => {
    const ledger = leased(READY, { job: "b", gpus: 1 }, gpus(["c0/h0", 1]));
    expect(after(ledger, (transaction) => adoptLease(transaction, of, at)).ledger).toBe(ledger);
  });

  test("takes back the word that nothing runs there", () => {
    const held = leased(READY, { gpus: 2 }, gpus(["c0/h0", 1], ["c0/h1", 1]));
    const early = inbox(held, [{ kind: "vacated", lease: "lease-1", hosts: [H0, H1] }]).ledger;
    const { ledger } = after(early, (transaction) =>
      adoptLease(transaction, fact(1, gpus(["c0/h0", 1], ["c0/h1", 1])), H0),
    );
    expect(ledger.leases.get(leaseId(token(1)))?.vacatedHosts).toEqual([H1]);
  });
});

describe("a job's claim", () => {
  test("is taken in whole, in the order of tokens", () => {
    const ledger = [fact(9, gpus(["c0/h0", 12])), fact(2, gpus(["c0/h1", 1]), { job: "b" })].reduce(
      (claimed, each) => after(claimed, (transaction) => assertLease(transaction, each)).ledger,
      LOST,
    );
    expect(linesOf(ledger)).toEqual(["lease-2 held c0/h1:1", "lease-9 held c0/h0:12"]);
    expect(ledger.nextToken).toBe(10);
  });

  test("confirms what a host has reported, on all its hosts", () => {
    const { ledger } = after(READY, (transaction) => {
      adoptLease(transaction, TWO_HOSTS, H1);
      assertLease(transaction, TWO_HOSTS);
    });
    expect(linesOf(ledger)).toEqual(["lease-7 held c0/h0:3 c0/h1:3"]);
  });

  test("said again changes nothing", () => {
    const { ledger } = after(LOST, (transaction) => assertLease(transaction, TWO_HOSTS));
    const again = after(ledger, (transaction) => assertLease(transaction, TWO_HOSTS));
    expect(again.ledger).toBe(ledger);
    expect(again.orphaned).toEqual([]);
  });

  test.each([
    { name: "of GPUs that are leased", of: fact(7, gpus(["c0/h0", 3])) },
    { name: "of hosts that the fleet lacks", of: fact(7, gpus(["c9/h9", 1])) },
    { name: "of a run left behind", of: fact(7, gpus(["c0/h1", 1]), { job: "b", run: "b-run0" }) },
    { name: "of another job's lease", of: fact(1, gpus(["c0/h0", 1])) },
  ])("$name is disowned", ({ of }) => {
    const ledger = leased(LOST, { job: "b", gpus: 1 }, gpus(["c0/h0", 1]));
    const applied = after(ledger, (transaction) => assertLease(transaction, of));
    expect(applied.ledger).toBe(ledger);
    expect(applied.orphaned).toEqual([of]);
  });
});

test("a claim on a lease that the ledger lacks is disowned once the fleet has recovered: the lease has ended", () => {
  const isRecovered = { ...LOST, recovery: { tokensBelow: 100 + 2 ** 20, untilMs: 0 } };
  for (const ledger of [READY, isRecovered]) {
    const applied = after(ledger, (transaction) => assertLease(transaction, TWO_HOSTS));
    expect(applied.ledger).toBe(ledger);
    expect(applied.orphaned).toEqual([TWO_HOSTS]);
  }
});

/** A late copy of a claim came after the end (a world, seed 31002920). */
test("so is one that a recovering fleet gave itself; under rules 9 it came back, and stayed until somebody repaired it", () => {
  const own = fact(100, gpus(["c0/h0", 1]));
  const claimed = (ledger: Ledger) => after(ledger, (transaction) => assertLease(transaction, own));
  expect(claimed(LOST).orphaned).toEqual([own]);
  expect(linesOf(claimed(LOST).ledger)).toEqual([]);
  expect(linesOf(claimed({ ...LOST, applyVersion: 9 }).ledger)).toEqual(["lease-100 held c0/h0:1"]);
  // A host that runs it is the better witness.
  const running = after(LOST, (transaction) => adoptLease(transaction, own, H0)).ledger;
  expect(linesOf(claimed(running).ledger)).toEqual(["lease-100 held c0/h0:1"]);
});

test("whatever is reported and claimed, no GPU is in two leases and no token is granted again", () => {
  const word = fc.record({
    isClaim: fc.boolean(),
    number: fc.integer({ min: 1, max: 4 }),
    job: fc.constantFrom("a", "b"),
    run: fc.constantFrom("r1", "r2"),
    at: fc.constantFrom(H0, H1),
    masks: fc.tuple(fc.integer({ min: 1, max: 7 }), fc.integer({ min: 1, max: 7 })),
  });
  fc.assert(
    fc.property(fc.array(word, { maxLength: 8 }), (words) => {
      const { ledger } = after(LOST, (transaction) => {
        for (const { isClaim, number, job, run, at, masks } of words) {
          const of = fact(number, gpus(["c0/h0", masks[0]], ["c0/h1", masks[1]]), { job, run });
          if (isClaim) assertLease(transaction, of);
          else adoptLease(transaction, of, at);
        }
      });
      for (const lease of ledger.leases.values())
        expect(lease.token).toBeLessThan(ledger.nextToken);
    }),
  );
});
