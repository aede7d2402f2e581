/** @file A scheduling cycle that is open: its inputs and the parts that change, for tests of single steps. */

import type { PendingRequest } from "../../domain/lease/plan.ts";
import { jobId } from "../../domain/values/ids.ts";
import {
  openCycleInput,
  type CycleInput,
  type CycleOptions,
} from "../../scheduling/cycle/cycle-input.ts";
import { DECIDE_LIMITS } from "../../scheduling/cycle/decide.ts";
import type { CycleParts } from "../../scheduling/cycle/parts.ts";
import { openPlanDraft } from "../../scheduling/cycle/plan-draft.ts";
import { isDismissing, RESERVATION_RULES } from "../../scheduling/cycle/policies.ts";
import { tawfq } from "../../scheduling/cycle/policy-sets.ts";
import { openPreemptionBudget } from "../../scheduling/cycle/preemption-budget.ts";
import { openSchedulerCache } from "../../scheduling/cycle/scheduler-cache.ts";
import { openWaitReports } from "../../scheduling/cycle/wait-reports.ts";
import { openWorkBudget } from "../../scheduling/cycle/work-budget.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { openReservations } from "../../scheduling/reservation/reservation-set.ts";

export interface OpenCycle {
  readonly input: CycleInput;
  readonly parts: CycleParts;
}

/** With the product's policies, unless `change` says otherwise. */
export function openCycle(
  snapshot: Ledger,
  nowMs: number,
  change: Partial<CycleOptions> = {},
): OpenCycle {
  const asked: CycleOptions = {
    policies: tawfq,
    ports: {},
    limits: DECIDE_LIMITS,
    method: "decide",
    ...change,
  };
  const cache = openSchedulerCache(snapshot, asked.policies.queue, {
    isDismissing: isDismissing(asked),
  });
  const { capacity } = cache;
  const plan = openPlanDraft({ capacity, nowMs });
  const input = openCycleInput(cache, { snapshot, nowMs }, { asked, granted: plan.holders });
  const work = openWorkBudget(asked.limits.maxCandidates);
  const reservations = openReservations(capacity, {
    rule: RESERVATION_RULES[asked.policies.backfill],
    nowMs,
    reservations: snapshot.reservations?.values() ?? [],
    requests: snapshot.requests,
  });
  const reports = openWaitReports(input, { plan, work, reservations });
  return {
    input,
    parts: { plan, work, reservations, reports, preemption: openPreemptionBudget(input) },
  };
}

export function requestOf({ requests }: Ledger, job: string): PendingRequest {
  const request = requests.get(jobId(job));
  if (request === undefined) throw new Error(`${job} does not wait`);
  return request;
}
