/**
 * @file Whether a waiting job would ever start: whether the fleet's own cycle starts it when no other job holds or wants a GPU.
 *
 * Drains, silent hosts and maintenance pass, so every host counts as ready. What is left are the job's terms and what the fleet is: its
 * hosts, links, quotas and budgets. The job itself is asked as one that has waited for its gang timeout. Cost: one cycle on an idle fleet.
 */

import type { JobId } from "../../domain/values/ids.ts";
import { runCycle, type DecidePorts, type Policies } from "../cycle/cycle.ts";
import { DECIDE_POLICIES, SILENT_LIMITS } from "../cycle/decide.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { idleFleet } from "./relaxed-fleet.ts";

export interface NeverOptions {
  readonly nowMs: number;
  readonly ports?: DecidePorts;
  readonly policies?: Policies;
}

/** Of a waiting job: true where no end of other jobs would start it. */
export function wouldNeverStart(
  ledger: Ledger,
  job: JobId,
  { nowMs, ports = {}, policies = DECIDE_POLICIES }: NeverOptions,
): boolean {
  const request = ledger.requests.get(job);
  if (request === undefined) return false;
  const limits = SILENT_LIMITS;
  const idle = idleFleet(ledger, request);
  const { items } = runCycle(idle, nowMs, { policies, ports, limits, method: "decide" }).plan;
  return items.every((item) => item.request.jobId !== job);
}
