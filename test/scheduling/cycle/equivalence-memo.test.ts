/** @file The equivalence cache: which requests share a failure, and which never do. */
import { describe, expect, test } from "vitest";
import type { PendingRequest } from "../../../domain/lease/plan.ts";
import { jobId, tenantId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { openEquivalenceMemo } from "../../../scheduling/cycle/equivalence-memo.ts";
import { openCycle, requestOf } from "../cycle-parts.ts";
import { H0, H1, ledgerWith, reserved } from "../reservation/reservations.ts";

const LEDGER = ledgerWith(
  [
    ["x", H0],
    ["y", H1],
  ],
  [{ job: "a", gpus: 8 }],
);
const FAILED = requestOf(LEDGER, "a");
const NOW_MS = 1_000;

function memoOf(reach: readonly string[][] = []) {
  const { input, parts } = openCycle(LEDGER, NOW_MS);
  let asked = 0;
  return openEquivalenceMemo(input.view, parts.reservations, () => {
    const jobs = reach[asked] ?? reach.at(-1) ?? [];
    asked += 1;
    return jobs.map((job) => reserved(job, H0));
  });
}

describe("after a failure", () => {
  test.each<{ name: string; change: Partial<PendingRequest>; want: boolean }>([
    { name: "another job with the same gang", change: { jobId: jobId("b") }, want: true },
    { name: "another tenant without a quota", change: { tenant: tenantId("u") }, want: true },
    { name: "a smaller gang", change: { gang: { ...FAILED.gang, gpus: 4, min: 4 } }, want: false },
    { name: "a smaller least size", change: { gang: { ...FAILED.gang, min: 4 } }, want: false },
    { name: "other shapes", change: { gang: { ...FAILED.gang, shapes: [4] } }, want: false },
    {
      name: "other constraints",
      change: { constraints: { ...FAILED.constraints, isSameHost: true } },
      want: false,
    },
    { name: "an array", change: { slots: 2 }, want: false },
  ])("$name is known: $want", ({ change, want }) => {
    const memo = memoOf();
    expect(memo.known(FAILED)).toBeUndefined();
    memo.note(FAILED, "WaitingForGpus");
    const known = memo.known({ ...FAILED, ...change });
    expect(known).toBe(want ? "WaitingForGpus" : undefined);
  });

  test("a request to which more reservations are open is not known", () => {
    const memo = memoOf([["r"], ["r", "s"], ["r"], []]);
    memo.note(FAILED, "WaitingForGpus");
    expect(memo.known(FAILED)).toBeUndefined();
    expect(memo.known(FAILED)).toBe("WaitingForGpus");
    expect(memo.known(FAILED)).toBe("WaitingForGpus");
  });
});

test("a failure is final at the smallest size that the gang will ever accept", () => {
  const memo = memoOf();
  const shrinking = { ...FAILED, gang: { gpus: 8, min: 4, timeoutMs: ms(500) } };
  expect(memo.isFinal(FAILED)).toBe(true);
  expect(memo.isFinal(shrinking)).toBe(true);
  expect(memo.isFinal({ ...shrinking, gang: { ...shrinking.gang, timeoutMs: ms(5_000) } })).toBe(
    false,
  );
});
