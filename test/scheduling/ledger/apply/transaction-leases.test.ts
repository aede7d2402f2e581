/** @file Changes of leases in a transaction: indexes follow, what a vacating lease waits for only shrinks, and confirmations may come early. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { jobId, leaseId, token, type HostId } from "../../../../domain/values/ids.ts";
import { apply } from "../../../../scheduling/ledger/apply/apply.ts";
import { openTransaction } from "../../../../scheduling/ledger/apply/transaction.ts";
import {
  evictingIn,
  indexOf,
  leasesOf,
  usageIn,
} from "../../../../scheduling/ledger/apply/transaction-index.ts";
import { setHost } from "../../../../scheduling/ledger/apply/transaction-fleet.ts";
import {
  confirmVacated,
  putLease,
  vacate,
} from "../../../../scheduling/ledger/apply/transaction-leases.ts";
import { usageOf } from "../../../../scheduling/ledger/rules/usage.ts";
import { fleetShape, gpus, host, leased, readyLedger } from "../../builders.ts";

const HOSTS = ["c0/h0", "c0/h1"].map(host);
const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
const ledger = ["a", "b", "c"].reduce(
  (held, job, at) => leased(held, { job, gpus: 2 }, gpus(["c0/h0", 1 << at], ["c0/h1", 1 << at])),
  READY,
);
const step = fc.record({
  lease: fc.integer({ min: 1, max: 3 }),
  kind: fc.constantFrom("vacate", "confirm", "evict"),
  hosts: fc.subarray(HOSTS),
});

test("indexes that were opened first equal those of the leases that are left", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 10 }), (steps) => {
      const transaction = openTransaction(ledger);
      usageIn(transaction);
      evictingIn(transaction);
      leasesOf(transaction, jobId("a"));
      for (const { lease: number, kind, hosts } of steps) {
        const lease = transaction.leases.get(leaseId(token(number)));
        if (lease === undefined) continue;
        const before = lease.vacatingHosts ?? HOSTS;
        if (kind === "vacate") vacate(transaction, lease, hosts);
        else if (kind === "confirm") confirmVacated(transaction, lease, hosts);
        else
          putLease(transaction, {
            ...lease,
            eviction: { forJob: jobId("x"), sinceMs: 0, isSent: false } as never,
          });
        const after = transaction.leases.get(lease.id);
        for (const name of after?.vacatingHosts ?? []) expect(before).toContain(name);
      }
      const fresh = usageOf(transaction.leases.values(), indexOf(transaction));
      for (const name of HOSTS)
        expect(usageIn(transaction).taken.get(name) ?? 0).toBe(fresh.taken.get(name) ?? 0);
      const all = [...transaction.leases.values()];
      expect(leasesOf(transaction, jobId("a"))).toEqual(all.filter((lease) => lease.jobId === "a"));
      expect(evictingIn(transaction)).toEqual(all.filter((lease) => lease.eviction !== undefined));
    }),
  );
});

describe("a lease whose job is gone", () => {
  const [h0, h1] = HOSTS;
  if (h0 === undefined || h1 === undefined) throw new Error("two hosts");
  const opened = () => {
    const transaction = openTransaction(ledger);
    const lease = transaction.leases.get(leaseId(token(1)));
    if (lease === undefined) throw new Error("no lease");
    return { transaction, lease };
  };

  test.each([
    { what: "of an array waits for a host whose word was of an earlier task", slots: 2, left: 1 },
    { what: "of an array is released where that host is fenced", slots: 2, isFenced: true },
    { what: "of an array is released under rules 6", slots: 2, rules: 6 },
    { what: "of one job is released" },
  ])("$what", ({ slots, isFenced, rules = ledger.applyVersion, left = 0 }) => {
    const transaction = openTransaction({ ...ledger, applyVersion: rules });
    const lease = transaction.leases.get(leaseId(token(1)));
    const status = transaction.hosts.get(h0);
    if (lease === undefined || status === undefined) throw new Error("no lease on the host");
    if (isFenced === true) setHost(transaction, h0, { ...status, isFenced });
    putLease(transaction, { ...lease, ...(slots !== undefined && { slots }), vacatedHosts: [h0] });
    const held = transaction.leases.get(lease.id);
    if (held === undefined) throw new Error("the lease is not held");
    vacate(transaction, held, [h0]);
    expect(transaction.leases.get(lease.id)?.vacatingHosts ?? []).toEqual([h0].slice(0, left));
  });

  test("waits for the unconfirmed hosts, and is released with the last one", () => {
    const { transaction, lease } = opened();
    vacate(transaction, lease, "all");
    const waiting = transaction.leases.get(lease.id);
    expect(waiting).toMatchObject({ state: "vacating", vacatingHosts: [h0, h1] });
    if (waiting !== undefined) confirmVacated(transaction, waiting, [h0, h1]);
    expect(transaction.leases.has(lease.id)).toBe(false);
    expect(transaction.needsDecision).toBe(true);
  });

  test("need not wait for a host that confirmed early", () => {
    const { transaction, lease } = opened();
    confirmVacated(transaction, lease, [h1]);
    const early = transaction.leases.get(lease.id);
    expect(early?.vacatedHosts).toEqual([h1]);
    if (early !== undefined) vacate(transaction, early, "all");
    expect(transaction.leases.get(lease.id)?.vacatingHosts).toEqual([h0]);
  });

  test.each([
    { what: "waits on when its job ends a later run", seq: 2, left: [h1] },
    { what: "is released by that under rules 10", seq: 2, rules: 10, left: [] },
    { what: "is released when its job takes its doubt back", seq: 1, left: [] },
  ])("$what", ({ seq, rules = ledger.applyVersion, left }) => {
    const given = { ...ledger, applyVersion: rules };
    const ends = (at: number, unconfirmedHosts: readonly HostId[]): unknown => ({
      ...{ kind: "end", jobId: "a", runId: "a-run1", seq: at, unconfirmedHosts },
    });
    const entries = [ends(1, [h1]), ends(seq, [])];
    const after = apply(given, { kind: "inbox", entries, nowMs: 1 }).ledger;
    expect(after.leases.get(leaseId(token(1)))?.vacatingHosts ?? []).toEqual(left);
  });

  test("is released at once when no host is unconfirmed", () => {
    const { transaction, lease } = opened();
    vacate(transaction, lease, []);
    expect(transaction.leases.has(lease.id)).toBe(false);
  });
});
