/** @file What an audit asks: of thousands of leases that no job has claimed, an order names some of those that arrays may deny. */

import { expect, it } from "vitest";
import { jobId, leaseId, runId, tenantId, token } from "../../../domain/values/ids.ts";
import type { Lease } from "../../../domain/lease/lease.ts";
import { auditOrder } from "../../../machines/fleet/audit-order.ts";
import { emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { fleetShape, gpus } from "../../scheduling/builders.ts";

const unclaimed = (number: number, change: Partial<Lease>): Lease => ({
  id: leaseId(token(number)),
  token: token(number),
  jobId: jobId("sweep"),
  runId: runId("run-1"),
  seq: 1,
  class: "training",
  tenant: tenantId("t"),
  gpus: gpus(["c0/h1", 0b1]),
  grantedAtMs: 5,
  requestedAtMs: 4,
  state: "held",
  isUnconfirmed: true,
  ...change,
});

const ledgerOf = (leases: readonly Lease[]): Ledger => ({
  ...emptyLedger(fleetShape([])),
  leases: new Map(leases.map((lease) => [lease.id, lease])),
});

const upTo = (count: number, of: (number: number) => Partial<Lease>): readonly Lease[] =>
  Array.from({ length: count }, (_, at) => unclaimed(at + 1, of(at + 1)));

it("names leases of arrays, and no lease of other jobs", () => {
  const [array, job] = [unclaimed(1, { slots: 2 }), unclaimed(2, { jobId: jobId("train") })];
  const { asked, doubted } = auditOrder(ledgerOf([array, job]), 0);
  expect(asked).toEqual([array.jobId, job.jobId]);
  expect(doubted).toEqual([{ jobId: array.jobId, lease: array.id }]);
});

it("names a thousand at most, and others the next time", () => {
  const ledger = ledgerOf(upTo(1_500, () => ({ slots: 1 })));
  const named = [0, 1_000].flatMap((from) => {
    const { doubted = [] } = auditOrder(ledger, from);
    expect(doubted).toHaveLength(1_000);
    return doubted.map(({ lease }) => lease);
  });
  expect(new Set(named).size).toBe(1_500);
});

it("names only leases of jobs that this audit looks at", () => {
  const ledger = ledgerOf(
    upTo(1_500, (number) => ({ slots: 1, jobId: jobId(`sweep-${String(number)}`) })),
  );
  const { holders, doubted = [] } = auditOrder(ledger, 700);
  const lookedAt = new Set(holders.map(({ jobId: job }) => job));
  expect(doubted.length).toBe(1_000);
  expect(doubted.filter(({ jobId: job }) => !lookedAt.has(job))).toEqual([]);
});
