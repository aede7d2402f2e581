/** @file Nomination: the sources of GPUs in their order, and what a nomination leaves of the reservations. */
import { describe, expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import type { CycleOptions } from "../../../scheduling/cycle/cycle-input.ts";
import { DECIDE_LIMITS } from "../../../scheduling/cycle/decide.ts";
import { nominate, nominateBlocked } from "../../../scheduling/cycle/nominate.ts";
import { tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { PREEMPTIBLE_MS } from "../../../scheduling/reservation/access.ts";
import { reservationOf } from "../../../scheduling/reservation/reservation-set.ts";
import { applyPlan, planOf, type RequestSpec } from "../builders.ts";
import { openCycle, requestOf } from "../cycle-parts.ts";
import { H0, H1, ledgerWith } from "../reservation/reservations.ts";

const BIG: RequestSpec = { job: "big", gpus: 16 };
const QUIET = { ...DECIDE_LIMITS, maxReasons: 0, freshReasons: 0 };
const OLD_MS = PREEMPTIBLE_MS + 1;

/** `run` has the first host, and both are reserved for `big`, as `apply` has it. */
function scene(small: RequestSpec, usableUntilMs?: number): Ledger {
  const ledger = ledgerWith([["run", H0]], [BIG, { job: "small", gpus: 8, ...small }]);
  const terms = usableUntilMs === undefined ? {} : { usableUntilMs };
  const item = { jobId: jobId("big"), gpus: [...H0, ...H1], kind: "backfill", ...terms } as const;
  const { ledger: after, refusals } = applyPlan(ledger, { ...planOf([]), reserve: [item] });
  expect(refusals).toEqual([]);
  return after;
}

function nominated(ledger: Ledger, job: string, nowMs: number, change: Partial<CycleOptions> = {}) {
  const { input, parts } = openCycle(ledger, nowMs, change);
  const { reservations } = parts;
  const gang = requestOf(ledger, job);
  const own = reservationOf(reservations, gang.jobId);
  const found = nominate(input, reservations, { gang, own });
  const left = reservationOf(reservations, jobId("big"))?.gpus;
  return { found, left, input, reservations, gang };
}

describe("a request is nominated", () => {
  test("on free GPUs first", () => {
    const ledger = ledgerWith([["run", H0]], [{ job: "small", gpus: 8 }]);
    const { found } = nominated(ledger, "small", 1);
    expect(found).toMatchObject({ kind: "grant", item: { gpus: H1 } });
  });

  test("on the GPUs that are reserved for it, which stay reserved until it is admitted", () => {
    const ledger = scene({});
    const { found, left } = nominated({ ...ledger, leases: new Map() }, "big", 1);
    expect(found).toMatchObject({ kind: "grant", item: { gpus: [...H0, ...H1] } });
    expect(left).toEqual([...H0, ...H1]);
  });

  test("on GPUs of a young reservation, which then lacks them", () => {
    const { found, left } = nominated(scene({}), "small", 1);
    expect(found).toMatchObject({ kind: "grant", item: { gpus: H1 } });
    expect(left).toEqual(H0);
  });

  test("within the shadow time of an old reservation, which stays whole", () => {
    const ledger = scene({ timeLimitMs: ms(1_000) }, OLD_MS + 1_000);
    const { found, left } = nominated(ledger, "small", OLD_MS);
    expect(found).toMatchObject({ kind: "grant", item: { gpus: H1 } });
    expect(left).toEqual([...H0, ...H1]);
  });

  test("opportunistically on idle reserved GPUs, only where the policy allows it", () => {
    const ledger = scene({ checkpoint: { graceMs: ms(1_000) } });
    const { found, left } = nominated(ledger, "small", OLD_MS, { policies: tawfq });
    expect(found).toMatchObject({ kind: "grant", item: { gpus: H1, isOpportunistic: true } });
    expect(left).toEqual([...H0, ...H1]);
    const { isOpportunistic: _not, ...closed } = tawfq;
    const without = nominated(ledger, "small", OLD_MS, { policies: closed });
    expect(without.found).toMatchObject({ kind: "wait", code: "BehindEarlierJob" });
    expect(without.left).toEqual([...H0, ...H1]);
  });

  test("by counts alone to wait, with the same code as by the full search", () => {
    const ledger = scene({});
    const full = nominated(ledger, "big", OLD_MS);
    const quick = nominated(ledger, "big", OLD_MS, { limits: QUIET });
    expect(quick.found).toMatchObject({ kind: "wait", code: "WaitingForGpus" });
    expect(full.found).toMatchObject({ kind: "wait", code: "WaitingForGpus" });
    expect(full.left).toEqual(quick.left);
  });
});

test("behind a blocked request even one that fits waits", () => {
  const ledger = ledgerWith(
    [["run", H0]],
    [
      { job: "small", gpus: 8 },
      { job: "huge", gpus: 17 },
    ],
  );
  const { input, parts } = openCycle(ledger, 1);
  const waits = (job: string) =>
    nominateBlocked(input, parts.reservations, { gang: requestOf(ledger, job), own: undefined });
  expect(waits("small")).toMatchObject({ kind: "wait", code: "BehindEarlierJob" });
  expect(waits("huge")).toMatchObject({ kind: "wait", code: "NoMatchingFlavor" });
});
