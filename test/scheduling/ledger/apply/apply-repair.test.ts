/** @file Repairs: what is denied by all is freed, what is not stays, and a note says so. */
import { describe, expect, test } from "vitest";
import { jobId, leaseId, runId, token } from "../../../../domain/values/ids.ts";
import { apply } from "../../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import { ledgerBytes } from "../../../../scheduling/ledger/size-account.ts";
import {
  OLDEST_RULES,
  type Ledger,
  type LedgerEvent,
} from "../../../../scheduling/ledger/ledger.ts";
import { checkLedger } from "../../../../scheduling/ledger/rules/invariants.ts";
import { ask, end, fleetShape, gpus, host, inbox, leased, readyLedger } from "../../builders.ts";

type Repaired = Extract<LedgerEvent, { readonly kind: "repaired" }>;
const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
const GRANTED = leased(READY, { job: "a", gpus: 4 }, gpus(["c0/h0", 3], ["c0/h1", 3]));
const HELD = apply(GRANTED, {
  kind: "delivered",
  accepted: [leaseId(token(1))],
  gone: [],
  nowMs: 0,
}).ledger;
const VACATING = inbox(HELD, [end("a", { unconfirmed: ["c0/h0", "c0/h1"] })]).ledger;
const ID = leaseId(token(1));

const repaired = (ledger: Ledger, about: Partial<Repaired>): Ledger => {
  const nothing = { leases: [], requests: [], reservations: [], denied: [], closed: [] };
  const event = { kind: "repaired" as const, key: "k", by: "ada", ...nothing, ...about, nowMs: 9 };
  const after = apply(ledger, event).ledger;
  expect(checkLedger(after)).toEqual([]);
  return after;
};
const waitingOn = ({ leases }: Ledger): readonly string[] =>
  [...leases.values()].map(({ state, vacatingHosts = [] }) => [state, ...vacatingHosts].join(" "));

describe("a repair", () => {
  test.each([
    {
      name: "frees a lease that its job and all hosts deny",
      from: VACATING,
      hosts: ["c0/h0", "c0/h1"],
      want: [],
    },
    {
      name: "keeps the GPUs of a host that did not answer",
      from: VACATING,
      hosts: ["c0/h1"],
      want: ["vacating c0/h0"],
    },
    {
      name: "takes a held lease from the job that denies it",
      from: HELD,
      hosts: ["c0/h0"],
      want: ["vacating c0/h1"],
    },
    {
      name: "frees such a lease too when all hosts deny it",
      from: HELD,
      hosts: ["c0/h0", "c0/h1"],
      want: [],
    },
  ])("$name", ({ from, hosts, want }) => {
    const denied = [{ lease: ID, hosts: hosts.map(host) }];
    const ledger = repaired(from, { leases: [ID], denied });
    expect(waitingOn(ledger)).toEqual(want);
    const names = want.length === 0 ? { freed: [ID], left: [] } : { freed: [], left: [ID] };
    expect(ledger.repairs).toMatchObject([{ key: "k", by: "ada", atMs: 9, ...names }]);
  });

  test("leaves a lease that its job does not deny, and one that nobody asked about", () => {
    expect(repaired(HELD, { leases: [ID] }).leases).toEqual(HELD.leases);
    const denied = [{ lease: ID, hosts: [host("c0/h0"), host("c0/h1")] }];
    expect(repaired(HELD, { denied }).leases).toEqual(HELD.leases);
  });

  test("leaves a lease whose grant has yet to be delivered: its job has not heard of it. Under rules 6 it is taken", () => {
    const denied = [{ lease: ID, hosts: [host("c0/h0"), host("c0/h1")] }];
    expect(GRANTED.outbox.has(ID)).toBe(true);
    expect(repaired(GRANTED, { leases: [ID], denied }).leases).toEqual(GRANTED.leases);
    const former = { ...GRANTED, applyVersion: 6 };
    expect(repaired(former, { leases: [ID], denied }).leases.size).toBe(0);
  });

  test("drops the request of a run that is over, and no other", () => {
    const waiting = inbox(READY, [ask({ job: "b" }), ask({ job: "c" })]).ledger;
    const [b, c] = [jobId("b"), jobId("c")];
    const closed = [
      { jobId: b, runId: runId("b-run1") },
      { jobId: c, runId: runId("c-run0") },
    ];
    const ledger = repaired(waiting, { requests: [b, c], closed });
    expect([...ledger.requests.keys()]).toEqual(["c"]);
    expect(ledger.repairs?.[0]).toMatchObject({
      freed: ["request of b"],
      left: ["request of c"],
      freedCount: 1,
      leftCount: 1,
    });
  });

  test("frees the reservation of a job that neither waits nor holds anything", () => {
    const reservation = (job: string, mask: number) => ({
      jobId: jobId(job),
      gpus: gpus(["c0/h0", mask]),
      sinceMs: 0,
      kind: "keep" as const,
    });
    const [gone, here] = [reservation("gone", 64), reservation("a", 128)];
    const reservations = new Map([gone, here].map((each) => [each.jobId, each]));
    const jobs = [gone.jobId, here.jobId];
    const ledger = repaired({ ...HELD, reservations }, { reservations: jobs });
    expect([...(ledger.reservations?.keys() ?? [])]).not.toContain("gone");
    expect(ledger.repairs?.[0]?.freed).toContain("reservation of gone");
  });

  test("keeps five notes of bounded size, also over continue-as-new", () => {
    const leases = Array.from({ length: 200 }, (_, at) => leaseId(token(at + 2)));
    let ledger = READY;
    for (let at = 0; at < 8; at += 1)
      ledger = repaired(ledger, { leases, by: "x".repeat(5_000), key: `k${at}` });
    expect(ledger.repairs?.map(({ key }) => key)).toEqual(["k3", "k4", "k5", "k6", "k7"]);
    expect(ledger.repairs?.[0]).toMatchObject({ freedCount: 200, leftCount: 0 });
    expect(JSON.stringify(ledger.repairs).length).toBeLessThan(12_000);
    const packed = JSON.stringify(packLedger(ledger));
    expect(unpackLedger(JSON.parse(packed))).toEqual(ledger);
    expect(ledgerBytes(ledger)).toBeGreaterThanOrEqual(packed.length);
  });

  test("is unknown to the first rules", () => {
    const old = { ...VACATING, applyVersion: OLDEST_RULES };
    const denied = [{ lease: ID, hosts: [host("c0/h0"), host("c0/h1")] }];
    expect(repaired(old, { leases: [ID], denied })).toBe(old);
  });
});
