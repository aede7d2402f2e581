/**
 * @file Explains the state of one job now: its place in the queue and the reason of its wait with live figures, or its leases.
 *
 * Runs the scheduling cycle up to the job's request and throws the plan away. Cost: at most that of `decide`.
 */

import type { JobId } from "../../domain/values/ids.ts";
import type { FleetAnswer } from "../../domain/lease/pending.ts";
import { runCycle, type DecidePorts } from "../cycle/cycle.ts";
import { DECIDE_LIMITS, DECIDE_POLICIES } from "../cycle/decide.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { placesInQueue } from "./queue-order.ts";
import { notNominated } from "../reasons/pending-reason.ts";

/** Of a waiting job, with its place in the queue from 1 (queue-order.ts). */
export type RequestAnswer =
  Exclude<FleetAnswer, Waiting> | (Waiting & { readonly position: number });

type Waiting = Extract<FleetAnswer, { readonly kind: "waiting" }>;

/** A job that holds a lease and requests another one counts as waiting. */
export function explainRequest(
  ledger: Ledger,
  jobId: JobId,
  { nowMs, ports = {} }: { readonly nowMs: number; readonly ports?: DecidePorts },
): RequestAnswer {
  const request = ledger.requests.get(jobId);
  if (request === undefined) {
    const leases = [...ledger.leases.values()].filter((lease) => lease.jobId === jobId);
    return leases.length === 0 ? { kind: "unknown" } : { kind: "leased", leases };
  }
  const { answer } = runCycle(ledger, nowMs, {
    policies: DECIDE_POLICIES,
    ports,
    limits: DECIDE_LIMITS,
    method: "decide",
    onlyFor: jobId,
  });
  return {
    kind: "waiting",
    position: placesInQueue(ledger, { nowMs }).get(jobId) ?? 1,
    waiting: ledger.requests.size,
    requestedAtMs: request.requestedAtMs,
    reason: answer ?? notNominated(request),
  };
}
