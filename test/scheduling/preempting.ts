/** @file A small fleet that preempts: the leases that a request would evict, and the way of an order from the plan to the job. */

import type { JobId } from "../../domain/values/ids.ts";
import { jobId } from "../../domain/values/ids.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import { openCapacity } from "../../scheduling/capacity/capacity.ts";
import type { CycleView } from "../../scheduling/admission/feasibility.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { plainPlace } from "../../scheduling/cycle/policy-sets.ts";
import { openPreemption, type PreemptionAccount } from "../../scheduling/preemption/account.ts";
import {
  planPreemption,
  type PreemptionPlan,
} from "../../scheduling/preemption/plan-preemption.ts";
import { end, inbox, planOf } from "./builders.ts";

export interface PreemptionScene {
  readonly view: CycleView;
  readonly preemption: PreemptionAccount;
}

export function viewOf(ledger: Ledger, nowMs: number): PreemptionScene {
  const capacity = openCapacity(ledger);
  const preemption = openPreemption(ledger, capacity, { nowMs });
  if (preemption === undefined) throw new Error("the fleet does not preempt");
  return { view: { capacity, claims: new Map(), nowMs }, preemption };
}

/** The leases that a waiting job would evict. */
export function preemptFor(ledger: Ledger, job: string, nowMs: number): PreemptionPlan | undefined {
  const request = ledger.requests.get(jobId(job));
  if (request === undefined) throw new Error(`${job} does not wait`);
  const { view, preemption } = viewOf(ledger, nowMs);
  return planPreemption(request, view, { preemption, place: plainPlace });
}

export const asPlan = ({ evict, reserve }: PreemptionPlan): Plan => ({
  ...planOf([]),
  reserve: [reserve],
  evict,
});

/** The orders reach their jobs, which stop and ask again with the same seniority. */
export function yielded(ledger: Ledger, nowMs: number): Ledger {
  let now = ledger;
  for (const lease of [...ledger.leases.values()]) {
    const { id, eviction } = lease;
    if (eviction === undefined || lease.state === "vacating") continue;
    now = apply(now, { kind: "evictions-sent", sent: [id], gone: [], nowMs }).ledger;
    now = inbox(now, [end(lease.jobId, { run: lease.runId, seq: lease.seq })], nowMs).ledger;
    now = inbox(now, [{ kind: "request", request: againOf(lease, nowMs) }], nowMs).ledger;
  }
  return now;
}

function againOf({ terms, ...lease }: Lease, nowMs: number): unknown {
  const { jobId: job, runId, seq, tenant, class: jobClass } = lease;
  return {
    jobId: job,
    runId,
    seq: seq + 1,
    name: job,
    tenant,
    class: jobClass,
    ...terms,
    requestedAtMs: nowMs,
  };
}

export const evictedJobs = (ledger: Ledger, plan: PreemptionPlan | undefined): readonly JobId[] =>
  (plan?.evict ?? []).flatMap(({ lease }) => ledger.leases.get(lease)?.jobId ?? []).sort();
