/**
 * @file Stores the fleet's own start estimates: for requests that still wait, and for those that were granted meanwhile.
 *
 * A forecast takes a while, and a job that started during it still started after the question. An estimate whose request ended without
 * a grant is dropped. Cost: O(leases of the jobs). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { RequestKey } from "../../../domain/lease/lease.ts";
import type { LedgerTransaction } from "./transaction.ts";
import { leasesOf } from "./transaction-index.ts";
import { withEstimate, type KeptEstimate } from "../rules/start-estimates.ts";
import type { LedgerEvent } from "../ledger.ts";

export function applyStartEstimates(
  transaction: LedgerTransaction,
  { estimates, askedAtMs }: Extract<LedgerEvent, { kind: "estimated" }>,
): void {
  for (const estimate of estimates) {
    const outcome = outcomeOf(transaction, estimate.request, askedAtMs);
    if (outcome === undefined) continue;
    transaction.ownEstimates = withEstimate(transaction.ownEstimates, estimate, {
      askedAtMs,
      outcome,
    });
    transaction.isChanged = true;
  }
}

function outcomeOf(
  transaction: LedgerTransaction,
  { jobId, runId, seq }: RequestKey,
  askedAtMs: number,
): KeptEstimate["outcome"] | undefined {
  const isMeant = (asked: Omit<RequestKey, "jobId">): boolean =>
    asked.runId === runId && asked.seq === seq;
  const started = leasesOf(transaction, jobId).find(
    (lease) => isMeant(lease) && lease.grantedAtMs >= askedAtMs,
  );
  if (started !== undefined) return { kind: "started", atMs: Math.round(started.grantedAtMs) };
  const request = transaction.requests.get(jobId);
  return request !== undefined && isMeant(request) ? { kind: "waits", jobId } : undefined;
}
