/**
 * @file What would become of a job if it were submitted now: where it starts, whom it preempts, or why and for how long it waits.
 *
 * The request is put into a copy of the ledger, and the fleet's own cycle decides on the copy: when nothing arrives in between, the
 * fleet decides the same. Nothing is changed. Cost: one cycle, and a forecast where the job would wait.
 */

import type { JobId, LeaseId } from "../domain/ids.ts";
import type { GangRequest, HostGpus } from "../domain/lease.ts";
import type { FleetAnswer } from "../domain/pending.ts";
import { apply } from "./apply.ts";
import type { DecidePorts, Policies } from "./cycle.ts";
import { decide } from "./decide.ts";
import { explainRequest } from "./explain.ts";
import { forecast, type Forecast, type ForecastOptions } from "./forecast.ts";
import type { Ledger } from "./ledger.ts";

export type WhatIf =
  | {
      readonly kind: "starts";
      readonly gpus: readonly HostGpus[];
      /** Of a job array: gangs that start at once. */
      readonly slots?: number;
      readonly reason: string;
    }
  /** GPUs are set apart, and others give theirs up for it. */
  | {
      readonly kind: "preempts";
      readonly gpus: readonly HostGpus[];
      readonly victims: readonly Victim[];
    }
  | {
      readonly kind: "waits";
      readonly answer: Extract<FleetAnswer, { readonly kind: "waiting" }>;
      /** Absent for a job that nothing but another fleet, quota or gang would help. */
      readonly forecast?: Forecast;
    }
  | { readonly kind: "refused"; readonly message: string };

export interface Victim {
  readonly lease: LeaseId;
  readonly jobId: JobId;
  readonly lostGpuSeconds: number;
  readonly reason: string;
}

export interface WhatIfOptions extends Omit<ForecastOptions, "ports" | "policies"> {
  readonly ports?: DecidePorts;
  readonly policies?: Policies;
}

export function whatIf(ledger: Ledger, request: GangRequest, options: WhatIfOptions): WhatIf {
  const { nowMs, ports, policies } = options;
  const entries = [{ kind: "request", request }];
  const { ledger: asked, refusals } = apply(ledger, { kind: "inbox", entries, nowMs });
  const [refusal] = refusals;
  if (refusal !== undefined) return { kind: "refused", message: refusal.message };
  const { jobId } = request;
  const plan = decide(asked, nowMs, ports, policies && { policies });
  const items = plan.items.filter((item) => item.request.jobId === jobId);
  const [first] = items;
  if (first !== undefined) {
    const slots = items.reduce((sum, item) => sum + (item.slots ?? 0), 0);
    const gpus = items.flatMap((item) => item.gpus);
    return { kind: "starts", gpus, ...(slots > 0 && { slots }), reason: first.reason };
  }
  const victims = (plan.evict ?? []).flatMap((item): Victim[] => {
    const lease = ledger.leases.get(item.lease);
    if (item.forJob !== jobId || lease === undefined) return [];
    const { lostGpuSeconds, reason } = item;
    return [{ lease: item.lease, jobId: lease.jobId, lostGpuSeconds, reason }];
  });
  if (victims.length > 0) {
    const gpus = plan.reserve?.find((item) => item.jobId === jobId)?.gpus ?? [];
    return { kind: "preempts", gpus, victims };
  }
  const answer = explainRequest(asked, jobId, { nowMs, ...(ports !== undefined && { ports }) });
  if (answer.kind !== "waiting") return { kind: "refused", message: `${jobId} is known already` };
  const isHopeless =
    answer.reason.code === "NoMatchingFlavor" || answer.reason.code === "ExceedsMaxQuota";
  const [found] = isHopeless ? [] : forecast(asked, [jobId], options);
  return { kind: "waits", answer, ...(found !== undefined && { forecast: found }) };
}
