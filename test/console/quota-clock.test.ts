/** @file How long requests have waited for quota: from the plan that says so to the one that says otherwise, and nothing for what has left. */

import { expect, it } from "vitest";
import { quotaClock } from "../../console/metrics/quota-clock.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import { jobId, type JobId } from "../../domain/values/ids.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";

const JOB = jobId("a");
const EMPTY = emptyLedger({ clusters: [], sites: [], tenants: [], policy: {} } as never);

/** A plan that gives the job this reason, and the ledger after it; without one, the job has left. */
function after(code?: string): readonly [Pick<Plan, "pending">, Ledger] {
  const waiting = code === undefined ? [] : [[JOB, { code }] as const];
  const ledger = {
    ...EMPTY,
    requests: new Map(waiting.map(([job]) => [job, {}])),
    reasons: new Map(waiting),
  } as unknown as Ledger;
  const pending = waiting.map(([job, reason]) => ({ request: { jobId: job as JobId }, reason }));
  return [{ pending } as unknown as Pick<Plan, "pending">, ledger];
}

it.each<readonly [readonly (readonly [atMs: number, code?: string])[], number]>([
  [[[0, "WaitingForQuota"], [700]], 700],
  [[[0, "WaitingForGpus"], [700]], 0],
  [[[0, "WaitingForQuota"], [100, "WaitingForQuota"], [700]], 700],
  [[[0, "WaitingForQuota"], [100, "WaitingForGpus"], [400, "WaitingForQuota"], [700]], 400],
  [[[0]], 0],
])("after plans %j the job has waited for quota for %d ms", (plans, wantMs) => {
  const clock = quotaClock();
  for (const [atMs, code] of plans) clock.look(...after(code), atMs);
  expect(clock.taken(JOB, 700)).toBe(wantMs);
  clock.look(...after(), 9_000);
  expect(clock.taken(JOB, 9_000)).toBe(0);
});

it("an array that is granted a part has waited for quota up to then, and goes on with its wait", () => {
  const clock = quotaClock();
  clock.look(...after("WaitingForQuota"), 100);
  clock.look(...after("WaitingForQuota"), 400);
  expect(clock.taken(JOB, 400)).toBe(300);
  clock.look(...after(), 900);
  expect(clock.taken(JOB, 900)).toBe(800);
});
