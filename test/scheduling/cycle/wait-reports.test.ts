/** @file Which requests are told why they wait: new codes, fresh figures at the front, the untold; each once, within the limits. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import type { PendingReason } from "../../../domain/lease/pending.ts";
import { RETRY_MS, type CycleOptions } from "../../../scheduling/cycle/cycle-input.ts";
import { DECIDE_LIMITS } from "../../../scheduling/cycle/decide.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { openCycle, requestOf } from "../cycle-parts.ts";
import { H0, H1, ledgerWith, reserved } from "../reservation/reservations.ts";
import { setBackfill } from "../../../scheduling/reservation/reservation-set.ts";

const LEDGER = ledgerWith(
  [["x", H0]],
  [
    { job: "a", gpus: 16 },
    { job: "b", gpus: 16 },
    { job: "c", gpus: 16 },
  ],
);
const NOW_MS = 1_000;
const LIMITS = { ...DECIDE_LIMITS, freshReasons: 1 };

function open(change: Partial<CycleOptions> = {}, ledger: Ledger = LEDGER) {
  const { input, parts } = openCycle(ledger, NOW_MS, { limits: LIMITS, ...change });
  const report = (job: string) => parts.reports.report(requestOf(ledger, job), "WaitingForGpus");
  const planned = () => parts.plan.build([], { method: "decide", candidates: 0 });
  return {
    input,
    parts,
    report,
    planned,
    told: () => planned().pending.map(({ request }) => request.jobId),
  };
}

/** With the reason that the request would be told now, or one of another code. */
function knowing(reasons: Readonly<Record<string, PendingReason>>): Ledger {
  return {
    ...LEDGER,
    reasons: new Map(Object.entries(reasons).map(([job, reason]) => [jobId(job), reason])),
  };
}

const current = (job: string): PendingReason =>
  open().parts.reports.describe(requestOf(LEDGER, job), "WaitingForGpus");

describe("a report", () => {
  test("is made once a cycle for each request", () => {
    const { report, told } = open();
    for (const job of ["a", "b", "a"]) report(job);
    expect(told()).toEqual(["a", "b"]);
  });

  test("is left out where nothing is new: the same reason, or the same code behind the front", () => {
    const stale = { ...current("b"), message: "old figures" };
    const ledger = knowing({
      a: current("a"),
      b: stale,
      c: { ...current("c"), code: "WaitingForHosts" },
    });
    const { report, told } = open({}, ledger);
    for (const job of ["a", "b", "c"]) report(job);
    expect(told()).toEqual(["c"]);
    const front = open({ limits: { ...LIMITS, freshReasons: 2 } }, ledger);
    for (const job of ["a", "b"]) front.report(job);
    expect(front.told()).toEqual(["b"]);
  });

  test("waits for the next cycle when the plan holds as many reasons as it may", () => {
    const { report, told, planned } = open({ limits: { ...LIMITS, maxReasons: 1 } });
    for (const job of ["a", "b"]) report(job);
    expect(told()).toEqual(["a"]);
    expect(planned().wakeAtMs).toBe(NOW_MS + RETRY_MS);
  });

  test.each<{ name: string; change: Partial<CycleOptions> }>([
    { name: "a cycle without reasons", change: { limits: { ...LIMITS, maxReasons: 0 } } },
    { name: "a cycle that was asked about one job", change: { onlyFor: jobId("b") } },
  ])("is not made in $name", ({ change }) => {
    const { report, told } = open(change);
    report("a");
    expect(told()).toEqual([]);
  });

  test("goes to the untold, reached or not, but not to granted jobs", () => {
    const { parts, told } = open({}, knowing({ b: current("b") }));
    parts.plan.grant(requestOf(LEDGER, "c"), {
      kind: "grant",
      request: { jobId: jobId("c"), runId: requestOf(LEDGER, "c").runId, seq: 1 },
      gpus: H1,
      reason: "",
    });
    parts.reports.reportUntold();
    expect(told()).toEqual(["a"]);
    expect(parts.work.spent()).toBeGreaterThan(0);
  });
});

test("figures are those of the fleet without the request's own reservation, which stays", () => {
  const ledger = ledgerWith([["x", H0]], [{ job: "a", gpus: 16 }]);
  const { parts } = openCycle(ledger, NOW_MS);
  const own = reserved("a", H1);
  setBackfill(parts.reservations, own.jobId, own);
  const request = requestOf(ledger, "a");
  expect(parts.reports.describe(request, "WaitingForGpus").numbers["largestNowGpus"]).toBe(0);
  expect(parts.reports.describe(request, "WaitingForGpus", own).numbers["largestNowGpus"]).toBe(8);
  expect(parts.reservations.backfill.get(own.jobId)).toBe(own);
});

test("the first job that blocks the queue is named, also after later ones", () => {
  const { parts } = open();
  for (const job of ["a", "b"]) parts.reports.noteBlocker(jobId(job));
  const reason = parts.reports.describe(requestOf(LEDGER, "c"), "BehindEarlierJob");
  expect(reason.holders).toEqual(["a"]);
});
