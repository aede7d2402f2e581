/**
 * @file What would become of a job if it were submitted now: where it starts, whom it preempts, or why and for how long it waits.
 *
 * The request is put into a copy of the ledger, and the fleet's own cycle decides on the copy: when nothing arrives in between, the
 * fleet decides the same. Nothing is changed. Cost: one cycle, and a forecast and some cycles where the job would wait.
 */

import type { GangRequest, HostGpus } from "../domain/lease.ts";
import type { FleetAnswer } from "../domain/pending.ts";
import { apply } from "./apply.ts";
import type { DecidePorts, Policies } from "./cycle.ts";
import { decide } from "./decide.ts";
import { explainRequest } from "./explain.ts";
import { forecast, type Forecast, type ForecastOptions } from "./forecast.ts";
import {
  evictionFor,
  laterPreemption,
  type Eviction,
  type LaterPreemption,
} from "./later-preemption.ts";
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
  | ({ readonly kind: "preempts" } & Eviction)
  | {
      readonly kind: "waits";
      readonly answer: Extract<FleetAnswer, { readonly kind: "waiting" }>;
      /** Absent for a job that nothing but another fleet, quota or gang would help. */
      readonly forecast?: Forecast;
      /** Whom it would preempt when they are no longer protected. */
      readonly preempts?: LaterPreemption;
    }
  | { readonly kind: "refused"; readonly message: string };

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
  const eviction = evictionFor(plan, ledger, jobId);
  if (eviction !== undefined) return { kind: "preempts", ...eviction };
  const answer = explainRequest(asked, jobId, { nowMs, ...(ports !== undefined && { ports }) });
  if (answer.kind !== "waiting") return { kind: "refused", message: `${jobId} is known already` };
  const isHopeless =
    answer.reason.code === "NoMatchingFlavor" || answer.reason.code === "ExceedsMaxQuota";
  if (isHopeless) return { kind: "waits", answer };
  const [found] = forecast(asked, [jobId], options);
  const preempts = laterPreemption(asked, jobId, options);
  return {
    kind: "waits",
    answer,
    ...(found !== undefined && { forecast: found }),
    ...(preempts !== undefined && { preempts }),
  };
}
