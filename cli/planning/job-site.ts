/** @file The GPUs that a fleet would grant a job if all were free, chosen with its plan, as the site of that plan. Loads the whole decision: on use. */

import { planPrices } from "../../activities/plan-prices.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import { fleetSite } from "../../planning/parallelism/fleet-site.ts";
import type { KeptStep } from "../../domain/model/step-record.ts";
import type { PlanSite } from "../../planning/parallelism/site.ts";
import { trialRequest } from "../../scheduling/explain/what-if.ts";
import { decide } from "../../scheduling/cycle/decide.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import { readyLedger } from "../../simulator/scheduler.ts";

/** Undefined where the job would not start at once. */
export function jobSite(
  { shape }: Fleet,
  spec: JobSpec,
  kept: readonly KeptStep[] = [],
): PlanSite | undefined {
  const request = trialRequest(spec, 0);
  const entries = [{ kind: "request", request }];
  const { ledger } = apply(readyLedger(shape), { kind: "inbox", entries, nowMs: 0 });
  const [grant] = decide(ledger, 0, { pricesOf: planPrices(shape, { kept }) }).items;
  return grant && fleetSite(grant.gpus, shape);
}
