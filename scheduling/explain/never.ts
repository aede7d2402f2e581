/**
 * @file Whether a waiting job would ever start: whether the fleet's own cycle starts it when no other job holds or wants a GPU; and if not, why,
 * and which change of the job or the fleet would let it.
 *
 * Drains, silent hosts and maintenance pass, so every host counts as ready. What is left are the job's terms and what the fleet is: its
 * hosts, links, quotas and budgets. The job itself is asked as one that has waited for its gang timeout. The reason and the changes are
 * those of that idle fleet: what the job waits for on the busy one may well be something else.
 * Cost: one cycle on an idle fleet; for a job that never starts one more for each change that is tried.
 */

import type { PendingReason } from "../../domain/lease/pending.ts";
import type { JobId } from "../../domain/values/ids.ts";
import { runCycle, type DecidePorts, type Policies } from "../cycle/cycle.ts";
import { DECIDE_LIMITS, DECIDE_POLICIES } from "../cycle/decide.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { notNominated } from "../reasons/pending-reason.ts";
import { idleFleet } from "./relaxed-fleet.ts";
import { unblock, type Change } from "./remedies.ts";

export interface NeverOptions {
  readonly nowMs: number;
  readonly ports?: DecidePorts;
  readonly policies?: Policies;
}

/** Why no end of other jobs would start a job. */
export interface Never {
  /** What keeps it from starting on the idle fleet. */
  readonly reason: PendingReason;
  /** After each of these the idle fleet would start it; empty where no single one of those that are tried is enough. */
  readonly changes: readonly Change[];
}

/** Of a waiting job; undefined where the end of other jobs would start it. */
export function neverOf(
  ledger: Ledger,
  job: JobId,
  { nowMs, ports = {}, policies = DECIDE_POLICIES }: NeverOptions,
): Never | undefined {
  const found = onIdleFleet(ledger, job, { nowMs, ports, policies });
  if (found === undefined) return undefined;
  return { reason: found.reason, changes: unblock(found.idle, job, { nowMs, ports, policies }) };
}

/** Whether `neverOf` has an answer, without the tries of changes: one cycle. */
export const isNever = (ledger: Ledger, job: JobId, nowMs: number): boolean =>
  onIdleFleet(ledger, job, { nowMs, ports: {}, policies: DECIDE_POLICIES }) !== undefined;

/** The idle fleet, and why it does not start the job; undefined where it does. */
function onIdleFleet(
  ledger: Ledger,
  job: JobId,
  { nowMs, ports, policies }: Required<NeverOptions>,
): { readonly idle: Ledger; readonly reason: PendingReason } | undefined {
  const request = ledger.requests.get(job);
  if (request === undefined) return undefined;
  const idle = idleFleet(ledger, request);
  const { plan, answer } = runCycle(idle, nowMs, {
    policies,
    ports,
    limits: DECIDE_LIMITS,
    method: "decide",
    onlyFor: job,
  });
  if (plan.items.some((item) => item.request.jobId === job)) return undefined;
  return { idle, reason: answer ?? notNominated(request) };
}
