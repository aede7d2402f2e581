/** @file An array that is asked about leases which it does not hold, and hosts run, ends them. */

import { describe, expect, it } from "vitest";
import { runId } from "../../../domain/values/ids.ts";
import {
  ASKED_RUN_RULES,
  DOUBTED_GRANT_RULES,
  LATE_ASSERTION_RULES,
} from "../../../protocol/control-contract.ts";
import { grantOf, grants, leaseNamed, playArray, type PlayedArray } from "./builders.ts";

const GONE = leaseNamed(1);
const HELD = leaseNamed(2);

/** It has given lease 1 back, and holds lease 2. */
function played(rules?: number): PlayedArray {
  const array = playArray({ count: 20, ...(rules !== undefined && { entry: { rules } }) });
  array.feed(grants(grantOf(1)));
  array.feed({ kind: "fenced", loss: { lease: GONE, hosts: ["alpha/h1"] } });
  array.deliver();
  array.feed(grants(grantOf(2, { seq: array.array().requests.seq })));
  expect([...array.array().leases.keys()]).toEqual([HELD]);
  return array;
}

const endsOf = (array: PlayedArray, from: number) =>
  array
    .entries()
    .slice(from)
    .flatMap((entry) => (entry.kind === "end" ? [entry] : []));

describe("an array that is asked", () => {
  it("ends a lease that it does not hold, on all of its hosts, and asserts what it holds", () => {
    const array = played();
    const from = array.entries().length;
    array.feed({ kind: "assert", question: { leases: [GONE, HELD, GONE] } });
    array.deliver();
    expect(endsOf(array, from)).toMatchObject([{ lease: GONE, unconfirmedHosts: "all" }]);
    const asserted = array.entries().flatMap((entry) => (entry.kind === "assert" ? [entry] : []));
    expect(asserted.map(({ lease }) => lease.id)).toEqual([HELD]);
  });

  it("starts nothing on a late grant of what it has denied", () => {
    const array = played();
    const unknown = leaseNamed(9);
    array.feed({ kind: "assert", question: { leases: [unknown] } });
    array.feed(grants(grantOf(9, { seq: array.array().requests.seq })));
    expect(array.array().leases.has(unknown)).toBe(false);
  });

  it.each([undefined, null, "lease-1", { leases: "lease-1" }, { leases: [7, null] }])(
    "denies nothing where it is asked about nothing (%j)",
    (question) => {
      const array = played();
      const from = array.entries().length;
      array.feed({ kind: "assert", question });
      array.deliver();
      expect(endsOf(array, from)).toEqual([]);
    },
  );

  it("ends what it has asserted and holds no more, where a fleet that has lost its ledger asks again for everything", () => {
    const asked = { kind: "assert", question: { leases: [] } } as const;
    const ended = (rules: number, question: typeof asked | ReturnType<typeof about>) => {
      const array = playArray({ count: 20, entry: { rules } });
      array.feed(grants(grantOf(1)), asked);
      array.deliver();
      array.feed({ kind: "fenced", loss: { lease: GONE, hosts: ["alpha/h1"] } });
      array.deliver();
      const from = array.entries().length;
      array.feed(question);
      array.deliver();
      return endsOf(array, from).map(({ lease }) => lease);
    };
    const about = (lease: string) => ({ kind: "assert", question: { leases: [lease] } }) as const;
    expect(ended(LATE_ASSERTION_RULES, asked)).toEqual([GONE]);
    expect(ended(LATE_ASSERTION_RULES, about("lease-9"))).toEqual(["lease-9"]);
    expect(ended(LATE_ASSERTION_RULES - 1, asked)).toEqual([]);
  });

  it("denies nothing under former rules", () => {
    const array = played(5);
    const from = array.entries().length;
    array.feed({ kind: "assert", question: { leases: [GONE] } });
    array.deliver();
    expect(endsOf(array, from)).toEqual([]);
  });

  it("answers as the run that is asked: its next run repeats the answer after a reset, and gives those leases up when it is asked itself", () => {
    const next = runId("run-after-the-reset");
    const answered = (rules: number, asked: string) => {
      const array = playArray({ count: 20, entry: { rules, runId: next } });
      array.feed(grants(grantOf(1)));
      const { runId: former } = array.array().leases.get(GONE)?.grant.lease ?? {};
      const named = asked === "former" ? former : next;
      array.feed({ kind: "assert", question: { leases: [], runId: named } });
      array.deliver();
      const isAsserted = array.entries().some(({ kind }) => kind === "assert");
      return { isAsserted, isGivenUp: array.array().leases.get(GONE)?.preempt !== undefined };
    };
    const isHeld = { isAsserted: true, isGivenUp: false };
    const isOrphan = { isAsserted: false, isGivenUp: true };
    expect(answered(ASKED_RUN_RULES, "former")).toEqual(isHeld);
    expect(answered(ASKED_RUN_RULES, "next")).toEqual(isOrphan);
    expect(answered(ASKED_RUN_RULES - 1, "former")).toEqual(isOrphan);
  });

  it("gives up grants to its run before as well that a reset tells again in the moment of the question, as their fleet frees them", () => {
    const next = runId("run-after-the-reset");
    const begun = (rules: number) => {
      const array = playArray({ count: 20, entry: { rules, runId: next } });
      const { id, runId: former } = grantOf(1).lease;
      expect(former).not.toBe(next);
      const own = grantOf(2);
      const owned = { ...own, lease: { ...own.lease, runId: next } };
      const asked = { kind: "assert", question: { leases: [], runId: next } } as const;
      array.feed(grants(grantOf(1), owned), asked);
      array.deliver();
      return {
        holds: [...array.array().leases.keys()],
        runs: array.gang("run").map(({ lease }) => lease),
        hasEnded: endsOf(array, 0).some(({ lease }) => lease === id),
      };
    };
    expect(begun(DOUBTED_GRANT_RULES)).toEqual({ holds: [HELD], runs: [HELD], hasEnded: true });
    expect(begun(DOUBTED_GRANT_RULES - 1).holds).toContain(GONE);
  });
});
