/** @file When a pass stops or skips: while no GPU is left that a request could use, and what it still does for its reports. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import type { CycleOptions } from "../../../scheduling/cycle/cycle-input.ts";
import { DECIDE_LIMITS } from "../../../scheduling/cycle/decide.ts";
import { openEarlyStop } from "../../../scheduling/cycle/early-stop.ts";
import { baseline, fifo, tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { openCycle } from "../cycle-parts.ts";
import { H0, H1, ledgerWith } from "../reservation/reservations.ts";

const A = jobId("a");
const QUIET = { ...DECIDE_LIMITS, maxReasons: 0, freshReasons: 0 };
const FULL = ledgerWith(
  [
    ["x", H0],
    ["y", H1],
  ],
  [{ job: "a", gpus: 8 }],
);
const HALF = ledgerWith([["x", H0]], [{ job: "a", gpus: 8 }]);
/** Its requests can neither reserve nor preempt. */
const UNRESERVED = { ...baseline, backfill: "unreserved" } as const;

function stopOf(
  ledger: Ledger,
  change: Partial<CycleOptions>,
  { pass = 1, unvisited = [] as readonly string[] } = {},
) {
  const { input, parts } = openCycle(ledger, 1, change);
  const jobs = new Set(unvisited.map(jobId));
  return { stop: openEarlyStop(input, parts, { pass, unvisited: jobs }), parts };
}

describe("a pass that reports nothing", () => {
  test.each([
    {
      name: "goes on while a request could start",
      ledger: HALF,
      policies: UNRESERVED,
      want: "nominate",
    },
    { name: "stops when none could", ledger: FULL, policies: UNRESERVED, want: "stop" },
    {
      name: "goes on while GPUs could be reserved",
      ledger: FULL,
      policies: baseline,
      want: "nominate",
    },
    {
      name: "goes on while others could be preempted",
      ledger: FULL,
      policies: { ...UNRESERVED, isPreempting: true as const },
      want: "nominate",
    },
  ])("$name", ({ ledger, policies, want }) => {
    const { stop } = stopOf(ledger, { policies, limits: QUIET });
    expect(stop.next(A, 1)).toBe(want);
  });

  test("comes to every job with a reservation", () => {
    const { stop } = stopOf(FULL, { policies: UNRESERVED, limits: QUIET }, { unvisited: ["a"] });
    expect(stop.next(A, 1)).toBe("nominate");
  });
});

describe("a pass that reports", () => {
  test("looks at the front of the queue, then tells the untold and stops", () => {
    const { stop } = stopOf(FULL, { policies: UNRESERVED });
    expect(stop.next(A, 1)).toBe("nominate");
    expect(stop.next(A, 1_001)).toBe("report-and-stop");
  });

  test("stops reporting when the plan holds as many reasons as it may", () => {
    const { stop } = stopOf(FULL, {
      policies: UNRESERVED,
      limits: { ...DECIDE_LIMITS, maxReasons: 0.5 },
    });
    expect(stop.next(A, 1)).toBe("nominate");
    const { stop: next, parts } = stopOf(FULL, {
      policies: UNRESERVED,
      limits: { ...DECIDE_LIMITS, maxReasons: 1 },
    });
    const request = FULL.requests.get(A);
    if (request === undefined) throw new Error("a does not wait");
    parts.plan.report(request, {
      code: "WaitingForGpus",
      message: "",
      numbers: {},
      holders: [],
      wakeOn: [],
    });
    expect(next.next(A, 1)).toBe("report-and-stop");
  });

  test("passes over a request without a reservation while one with a reservation is to come", () => {
    const { stop } = stopOf(FULL, { policies: UNRESERVED }, { unvisited: ["b"] });
    expect([stop.next(A, 2_000), stop.next(jobId("b"), 2_000)]).toEqual(["skip", "nominate"]);
  });

  test("tells all in the first pass: a later one stops when no GPU is left", () => {
    const { stop } = stopOf(FULL, { policies: UNRESERVED }, { pass: 2 });
    expect(stop.next(A, 1)).toBe("stop");
  });
});

describe("a queue in which no request passes another", () => {
  test("is blocked by the first one that waits for leases to end, and ends there when nothing is reported", () => {
    const { stop } = stopOf(FULL, { policies: fifo, limits: QUIET });
    expect(stop.blocks(A, "NoMatchingFlavor")).toBe(false);
    expect(stop.isBlocked()).toBe(false);
    expect(stop.blocks(A, "WaitingForGpus")).toBe(true);
    expect(stop.isBlocked()).toBe(true);
  });

  test("goes on for its reports", () => {
    const { stop } = stopOf(FULL, { policies: fifo });
    expect(stop.blocks(A, "WaitingForGpus")).toBe(false);
    expect(stop.isBlocked()).toBe(true);
  });

  test("is no other queue", () => {
    expect(DEFAULT_POLICY.isPreempting).toBe(true);
    const { stop } = stopOf(FULL, { policies: tawfq, limits: QUIET });
    expect(stop.blocks(A, "WaitingForGpus")).toBe(false);
    expect(stop.isBlocked()).toBe(false);
  });
});
