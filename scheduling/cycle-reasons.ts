/** @file What a cycle tells those who wait: the front of the line its figures, the others a new code, each at least once. */

import type { PendingReason } from "../domain/pending.ts";
import type { PendingRequest } from "../domain/plan.ts";
import { asOneGang } from "./array-fill.ts";
import { RETRY_MS, wakeAt, type CycleRun } from "./cycle-run.ts";
import { judge, wakeAtOf, type WaitCode } from "./judge.ts";
import { describeWait } from "./pending-reason.ts";

export function tellWait(run: CycleRun, request: PendingRequest, code: WaitCode): void {
  const { told, pending, snapshot, options } = run;
  const { limits, onlyFor } = options;
  const { jobId, runId, seq } = request;
  if (!run.isTelling || onlyFor !== undefined || told.has(jobId)) return;
  told.add(jobId);
  const former = snapshot.reasons.get(jobId);
  if (former?.code !== code || run.waiting < limits.freshReasons) {
    if (pending.length >= limits.maxReasons) wakeAt(run, run.nowMs + RETRY_MS);
    else {
      const reason = describeWait(request, code, run.telling);
      if (!isSame(reason, former)) pending.push({ request: { jobId, runId, seq }, reason });
    }
  }
  run.waiting += 1;
}

/** Tells those who never were told anything. */
export function tellNew(run: CycleRun): void {
  const { snapshot, told, granted, pending, scene, nowMs, options } = run;
  for (const request of snapshot.requests.values()) {
    const { jobId } = request;
    if (snapshot.reasons.has(jobId) || told.has(jobId) || granted.has(jobId)) continue;
    if (pending.length >= options.limits.maxReasons) {
      wakeAt(run, nowMs + RETRY_MS);
      return;
    }
    const gang = asOneGang(request, scene);
    const verdict = judge(gang, scene);
    const code = verdict.kind === "wait" ? verdict.code : "BehindEarlierJob";
    run.candidates += verdict.work;
    wakeAt(run, wakeAtOf(gang, code, nowMs));
    tellWait(run, gang, code);
  }
}

const isSame = (a: PendingReason, b: PendingReason | undefined): boolean =>
  a.code === b?.code && a.message === b.message && JSON.stringify(a) === JSON.stringify(b);
