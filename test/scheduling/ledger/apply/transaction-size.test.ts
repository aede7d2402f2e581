/** @file Whatever comes, what a fleet carries stays within its budget, and nothing that was admitted is lost. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { apply, emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import {
  MACHINE_BYTES,
  STATE_BUDGET_BYTES,
} from "../../../../scheduling/ledger/apply/transaction-size.ts";
import { packLedger } from "../../../../scheduling/ledger/codec.ts";
import type { Ledger, LedgerEvent } from "../../../../scheduling/ledger/ledger.ts";
import { ledgerBytes } from "../../../../scheduling/ledger/size-account.ts";
import { clusterId, jobId } from "../../../../domain/values/ids.ts";
import { utf8Length } from "../../../../lib/utf8.ts";
import { caseCount } from "../../../support/case-count.ts";
import {
  ask,
  end,
  fleetShape,
  gpus,
  grantItem,
  hello,
  host,
  hostNames,
  planOf,
} from "../../builders.ts";

const SHAPE = fleetShape([{ hosts: Array.from({ length: 12 }, () => ({})) }]);

/** What the fleet's run hands to the next one, beside the ledger at its most. */
const carriedBytes = (ledger: Ledger): number =>
  utf8Length(JSON.stringify(packLedger(ledger))) + ledger.requests.size + MACHINE_BYTES;

const long = (text: string, length: number): string => text.padEnd(length, "x");
const clustersOf = (at: number): ReturnType<typeof clusterId>[] =>
  Array.from({ length: 7 }, (_, part) => clusterId(long(`c${at}-${part}-`, 990)));

type Attack = (at: number, ledger: Ledger, nowMs: number) => LedgerEvent;

const inboxOf = (entries: readonly unknown[], nowMs: number): LedgerEvent => ({
  kind: "inbox",
  entries,
  nowMs,
});
const times = <T>(count: number, of: (at: number) => T): T[] =>
  Array.from({ length: count }, (_, at) => of(at));

const ATTACKS: Readonly<Record<string, Attack>> = {
  "jobs with 7 KiB of clusters": (at, _ledger, nowMs) =>
    inboxOf(
      times(100, (n) =>
        ask({
          job: `big-${at}-${n}`,
          constraints: {
            clusters: clustersOf(1_000 * at + n),
            isSameHost: false,
            isSameFabric: false,
          },
        }),
      ),
      nowMs,
    ),
  "ordinary jobs": (at, _ledger, nowMs) =>
    inboxOf(
      times(2_000, (n) => ask({ job: `job-${at}-${n}-aaaaaaaaaaaaaaaa`, submittedAtMs: nowMs })),
      nowMs,
    ),
  "thousands of tenants": (at, _ledger, nowMs) =>
    inboxOf(
      times(300, (n) => ask({ job: `t-${at}-${n}`, tenant: long(`tenant-${at}-${n}-`, 900) })),
      nowMs,
    ),
  "reasons of any length": (at, { requests }, nowMs) => ({
    kind: "plan",
    plan: planOf(
      [],
      [...requests.values()].slice(0, 200).map(({ jobId: job, runId, seq }, n) => ({
        request: { jobId: job, runId, seq },
        reason: {
          code: "WaitingForGpus" as const,
          message: long(`${at} ${n} ü "`, 4_000),
          numbers: { [long("n", 500)]: n },
          holders: times(8, (of) => jobId(long(`holder-${of}`, 300))),
          wakeOn: ["timer" as const],
        },
      })),
    ),
    nowMs,
  }),
  grants: (_at, { requests, leases }, nowMs) => ({
    kind: "plan",
    plan: planOf(
      [...requests.values()].slice(0, 12 - leases.size).map(({ jobId: job, runId, seq }, n) => ({
        ...grantItem(job, gpus([hostNames(SHAPE)[(leases.size + n) % 12] ?? "", 1]), {
          run: runId,
          seq,
        }),
        reason: long("why", 3_000),
      })),
    ),
    nowMs,
  }),
  "ends of leases": (at, { leases }, nowMs) =>
    inboxOf(
      [...leases.values()]
        .slice(0, 1 + (at % 5))
        .map(({ jobId: job, runId, seq }) =>
          end(job, { run: runId, seq, unconfirmed: at % 2 === 0 ? [] : hostNames(SHAPE) }),
        ),
      nowMs,
    ),
  "agents with long addresses": (at, _ledger, nowMs) =>
    inboxOf(
      hostNames(SHAPE).map((name) => {
        const entry = hello([name], { epoch: long(`e${at}-`, 900) });
        return entry.kind === "agent-registered"
          ? { ...entry, agent: { ...entry.agent, address: long("address", 150_000) } }
          : entry;
      }),
      nowMs,
    ),
  drains: (at, _ledger, nowMs) => ({
    kind: "drain",
    hosts: hostNames(SHAPE).map(host),
    reason: long(`reason ${at}`, 100_000),
    nowMs,
  }),
  undrains: (_at, _ledger, nowMs) => ({
    kind: "undrain",
    hosts: hostNames(SHAPE).map(host),
    nowMs,
  }),
  junk: (at, _ledger, nowMs) =>
    inboxOf(
      times(60, (n) => ({ kind: long(`junk-${at}-${n}-\u0001\u0002`, 5_000) })),
      nowMs,
    ),
  "a larger fleet": (at, _ledger, nowMs) => ({
    kind: "fleet-changed",
    shape: fleetShape([
      { hosts: Array.from({ length: 12 }, () => ({})) },
      { hosts: times(4_000 * (1 + (at % 4)), () => ({})) },
    ]),
    nowMs,
  }),
  "the same fleet again": (_at, _ledger, nowMs) => ({ kind: "fleet-changed", shape: SHAPE, nowMs }),
  "lobbies told": (_at, { intake }, nowMs) => ({
    kind: "lobbies-told",
    rows: [...(intake?.news.values() ?? [])],
    credits: [],
    nowMs,
  }),
};

const begin = (): Ledger => apply(emptyLedger(SHAPE), inboxOf([hello(hostNames(SHAPE))], 0)).ledger;

describe("what a fleet carries", () => {
  test("stays within its budget, whatever comes, and what is kept never shows", () => {
    const histories = fc.array(fc.constantFrom(...Object.keys(ATTACKS)), {
      minLength: 3,
      maxLength: 10,
    });
    fc.assert(
      fc.property(histories, (names) => {
        let ledger = begin();
        names.forEach((name, at) => {
          const event = ATTACKS[name]?.(at, ledger, 1_000 * at);
          if (event === undefined) return;
          const again = apply({ ...ledger }, event);
          const applied = apply(ledger, event);
          expect(applied.refusals).toEqual(again.refusals);
          expect(ledgerBytes(applied.ledger)).toBe(ledgerBytes(again.ledger));
          const gone = [...ledger.requests.keys()].filter(
            (job) =>
              !applied.ledger.requests.has(job) &&
              ![...applied.ledger.leases.values()].some((lease) => lease.jobId === job),
          );
          expect(gone).toEqual([]);
          ledger = applied.ledger;
          expect(carriedBytes(ledger)).toBeLessThanOrEqual(STATE_BUDGET_BYTES);
        });
      }),
      { numRuns: caseCount(6) },
    );
  });

  test("is full of large requests long before the last of 300 has come, and still takes what it must", () => {
    const small = times(12, (n) => ask({ job: `small-${n}` }));
    let ledger = apply(begin(), inboxOf(small, 0)).ledger;
    let asked = 0;
    for (let at = 0; at < 3; at += 1) {
      ledger = applied(ledger, "jobs with 7 KiB of clusters", at);
      asked += 100;
      ledger = applied(ledger, "lobbies told", at);
    }
    expect(ledger.requests.size).toBeGreaterThan(150);
    expect(ledger.requests.size).toBeLessThan(asked);
    expect(carriedBytes(ledger)).toBeGreaterThan(0.9 * STATE_BUDGET_BYTES);
    for (const name of ["drains", "junk", "reasons of any length", "undrains", "grants"] as const)
      ledger = applied(ledger, name, 7);
    expect([...ledger.hosts.values()].every(({ isDrained }) => !isDrained)).toBe(true);
    expect(ledger.leases.size).toBe(12);
    ledger = applied(ledger, "ends of leases", 4);
    expect(ledger.leases.size).toBe(7);
    expect(carriedBytes(ledger)).toBeLessThanOrEqual(STATE_BUDGET_BYTES);
  });

  test("refuses a description that leaves no room, and says so", () => {
    const ledger = applied(begin(), "ordinary jobs", 1);
    const event = ATTACKS["a larger fleet"]?.(3, ledger, 5_000);
    if (event === undefined) throw new Error("no such attack");
    const { refusals, ledger: after } = apply(ledger, event);
    expect(refusals).toMatchObject([{ code: "LedgerFull" }]);
    expect(after.shape).toBe(ledger.shape);
  });

  function applied(ledger: Ledger, name: keyof typeof ATTACKS, at: number): Ledger {
    const event = ATTACKS[name]?.(at, ledger, 1_000 * at);
    return event === undefined ? ledger : apply(ledger, event).ledger;
  }
});
