/** @file One pass through the queue: what becomes of each request, in order, and what a pass answers about one job. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { runAdmissionPass } from "../../../scheduling/cycle/admission-pass.ts";
import { RETRY_MS, type CycleOptions } from "../../../scheduling/cycle/cycle-input.ts";
import { DECIDE_LIMITS } from "../../../scheduling/cycle/decide.ts";
import { baseline, fifo, tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { reservationOf } from "../../../scheduling/reservation/reservation-set.ts";
import { openCycle } from "../cycle-parts.ts";
import { H0, H1, ledgerWith } from "../reservation/reservations.ts";

function passed(ledger: Ledger, change: Partial<CycleOptions> = {}, nowMs = 600_000) {
  const { input, parts } = openCycle(ledger, nowMs, { policies: baseline, ...change });
  const answer = runAdmissionPass(input, parts, 1);
  const plan = parts.plan.build([], { method: "decide", candidates: parts.work.spent() });
  const codes = Object.fromEntries(
    plan.pending.map(({ request, reason }) => [request.jobId, reason.code]),
  );
  return { parts, answer, plan, codes, granted: [...parts.plan.grantedJobs] };
}

const FREE = ledgerWith(
  [["run", H0]],
  [
    { job: "a", gpus: 4 },
    { job: "b", gpus: 16 },
    { job: "c", gpus: 2 },
  ],
);

describe("a pass", () => {
  test("admits what fits, reserves for what does not, and reports the rest", () => {
    const { granted, codes, parts } = passed(FREE);
    expect(granted).toEqual(["a"]);
    expect(codes).toEqual({ b: "WaitingForGpus", c: "BehindEarlierJob" });
    expect(reservationOf(parts.reservations, jobId("b"))?.gpus).toEqual([...H0, ...H1]);
  });

  test("admits a job behind a reservation that ends within the shadow time", () => {
    const ledger = ledgerWith(
      [["run", H0, { timeLimitMs: ms(700_000) }]],
      [
        { job: "b", gpus: 16 },
        { job: "c", gpus: 2, timeLimitMs: ms(60_000) },
      ],
    );
    const { granted, parts } = passed(ledger);
    expect(granted).toEqual(["c"]);
    expect(reservationOf(parts.reservations, jobId("b"))?.gpus).toEqual([...H0, ...H1]);
  });

  test("preempts for a request that is due, and reserves what the victim frees", () => {
    const ledger = ledgerWith(
      [
        ["x", H0],
        ["y", H1],
      ],
      [{ job: "infer", class: "inference", gpus: 2 }],
    );
    const { plan, parts, codes } = passed(ledger, { policies: tawfq });
    expect(plan.evict).toMatchObject([{ forJob: "infer" }]);
    expect(codes).toEqual({ infer: "WaitingForPreempted" });
    expect(reservationOf(parts.reservations, jobId("infer"))?.kind).toBe("preemption");
  });

  test("ends at the first request that waits where none may pass it, unless it reports", () => {
    const quiet = { ...DECIDE_LIMITS, maxReasons: 0, freshReasons: 0 };
    expect(passed(FREE, { policies: fifo, limits: quiet }).granted).toEqual(["a"]);
    const { granted, codes } = passed(FREE, { policies: fifo });
    expect(granted).toEqual(["a"]);
    expect(codes).toEqual({ b: "WaitingForGpus", c: "BehindEarlierJob" });
  });

  test("stops when its work is spent, and asks for another cycle", () => {
    const limits = { ...DECIDE_LIMITS, maxCandidates: 1 };
    const { granted, plan } = passed(FREE, { limits });
    expect(granted).toEqual(["a"]);
    expect(plan.wakeAtMs).toBe(600_000 + RETRY_MS);
  });
});

describe("a pass that is asked about one job", () => {
  test.each([
    { job: "a", position: 1, code: undefined },
    { job: "b", position: 2, code: "WaitingForGpus" },
    { job: "c", position: 3, code: "BehindEarlierJob" },
  ])("ends at $job, place $position, with its reason", ({ job, position, code }) => {
    const { answer, plan } = passed(FREE, { onlyFor: jobId(job) });
    expect([answer.position, answer.reason?.code]).toEqual([position, code]);
    expect(plan.pending).toEqual([]);
  });

  test("still finds its place when the work is spent", () => {
    const limits = { ...DECIDE_LIMITS, maxCandidates: 1 };
    const { answer } = passed(FREE, { onlyFor: jobId("c"), limits });
    expect(answer).toEqual({ position: 3 });
  });
});
