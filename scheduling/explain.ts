/**
 * @file What the fleet knows of one job now: its place in the queue and why it waits, with live figures, or what it holds.
 *
 * Runs the scheduling cycle up to the job's request and throws the plan away. Cost: that of `decide`, at most.
 */

import type { JobId } from "../domain/ids.ts";
import type { FleetAnswer } from "../domain/pending.ts";
import { runCycle, type DecidePorts } from "./cycle.ts";
import { DECIDE_LIMITS, DECIDE_POLICIES } from "./decide.ts";
import type { Ledger } from "./ledger.ts";
import { notJudged } from "./pending-reason.ts";

/** A job that holds a lease and asks for another one is waiting. */
export function explainRequest(
  ledger: Ledger,
  jobId: JobId,
  { nowMs, ports = {} }: { readonly nowMs: number; readonly ports?: DecidePorts },
): FleetAnswer {
  const request = ledger.requests.get(jobId);
  if (request === undefined) {
    const leases = [...ledger.leases.values()].filter((lease) => lease.jobId === jobId);
    return leases.length === 0 ? { kind: "unknown" } : { kind: "leased", leases };
  }
  const { position = 0, answer } = runCycle(ledger, nowMs, {
    policies: DECIDE_POLICIES,
    ports,
    limits: DECIDE_LIMITS,
    method: "decide",
    onlyFor: jobId,
  });
  return {
    kind: "waiting",
    position,
    waiting: ledger.requests.size,
    requestedAtMs: request.requestedAtMs,
    reason: answer ?? notJudged(request),
  };
}
