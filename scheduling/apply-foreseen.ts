/**
 * @file Takes the fleet's own start estimates into the ledger: of requests that wait still, and of those that were granted meanwhile.
 *
 * Playing the queue takes a while, and whoever started in it started after the question all the same. What went without a grant is
 * left out. Cost: O(leases of the jobs).
 */

import type { RequestKey } from "../domain/lease.ts";
import { leasesOf, type Draft } from "./draft.ts";
import { withEstimate, type Foreseen } from "./foreseen.ts";
import type { LedgerEvent } from "./ledger.ts";

export function applyForeseen(
  draft: Draft,
  { estimates, askedAtMs }: Extract<LedgerEvent, { kind: "foreseen" }>,
): void {
  for (const estimate of estimates) {
    const outcome = outcomeOf(draft, estimate.request, askedAtMs);
    if (outcome === undefined) continue;
    draft.foreseen = withEstimate(draft.foreseen, estimate, { askedAtMs, outcome });
    draft.isChanged = true;
  }
}

function outcomeOf(
  draft: Draft,
  { jobId, runId, seq }: RequestKey,
  askedAtMs: number,
): Foreseen["outcome"] | undefined {
  const isMeant = (asked: Omit<RequestKey, "jobId">): boolean =>
    asked.runId === runId && asked.seq === seq;
  const started = leasesOf(draft, jobId).find(
    (lease) => isMeant(lease) && lease.grantedAtMs >= askedAtMs,
  );
  if (started !== undefined) return { kind: "started", atMs: Math.round(started.grantedAtMs) };
  const request = draft.requests.get(jobId);
  return request !== undefined && isMeant(request) ? { kind: "waits", jobId } : undefined;
}
