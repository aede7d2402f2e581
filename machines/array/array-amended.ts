/**
 * @file Changes the settings of a job array: its next request and its next leases have them; what a lease runs goes on as it was started.
 *
 * A lease was granted, and its ticket signed, for the settings of its request. So a grant that answers a request of former tenant or
 * time limit is given back.
 */

import type { AmendAnswer } from "../../protocol/job.ts";
import { isChanged, noted, readAmendment, type ReadAmendment } from "../job/amended.ts";
import { notAllowed, type OrderRefusal } from "../job/order-refusal.ts";
import { quiet } from "../steps.ts";
import { exitOf } from "./array-requests.ts";
import { changeRequests, type ArrayStep, type JobArray } from "./array-state.ts";
import { shownState } from "./array-view.ts";

export function readArrayAmendment(
  array: JobArray,
  order: unknown,
  nowMs: number,
): ReadAmendment | OrderRefusal {
  const read = readAmendment(array, order, nowMs);
  if ("code" in read) return read;
  const { jobId, reason, phase, leases, arrivals } = array;
  if (reason !== undefined || phase.kind !== "open")
    return notAllowed(`job ${jobId} is being ended`);
  if (isChanged(read, "tenant") && leases.size + arrivals.size > 0)
    return notAllowed(
      `tasks of job ${jobId} run at the cost of its tenant. Requeue or suspend it first, then change the tenant.`,
    );
  return read;
}

export const arrayAmendAnswer = (array: JobArray, { changes }: ReadAmendment): AmendAnswer => ({
  state: shownState(array),
  changes,
  isForNextRun: array.leases.size > 0,
});

export function amendArray(array: JobArray, order: unknown, nowMs: number): ArrayStep {
  const read = readArrayAmendment(array, order, nowMs);
  if ("code" in read || read.changes.length === 0) return quiet(array);
  const { amended, commands } = noted(array.amended, read, nowMs);
  const { seq, endedUpTo } = array.requests;
  const isSigned = isChanged(read, "tenant") || isChanged(read, "timeLimitMs");
  const { exit } = isChanged(read, "tenant") ? exitOf(array) : {};
  const outdated = changeRequests(array, {
    isOutdated: true,
    ...(isSigned && { endedUpTo: Math.max(endedUpTo, seq) }),
    ...(exit !== undefined && { leaving: exit }),
  });
  const state = {
    ...outdated,
    spec: read.spec,
    amended,
    ...(isChanged(read, "tenant") && { tenantsBefore: tenantsBefore(array) }),
  };
  return { state, commands };
}

/** Several changes under one request leave it with the first of its tenants. */
function tenantsBefore({
  tenantsBefore: former = [],
  requests: { seq },
  spec,
}: JobArray): NonNullable<JobArray["tenantsBefore"]> {
  if (former.at(-1)?.upTo === seq) return former;
  return [...former, { upTo: seq, tenant: spec.tenant }].slice(-MOST_TENANTS_BEFORE);
}

/** A call is of a request of a moment ago. */
const MOST_TENANTS_BEFORE = 16;
