/**
 * @file Answers what a job would do if it were submitted now: where it starts, which jobs it preempts, or why and how long it waits, or that it would never start.
 *
 * The request is put into a copy of the ledger, and the fleet's own cycle decides on the copy: unless something else arrives first, the
 * fleet decides the same. The ledger is not changed. Cost: one cycle; for a job that would wait also a forecast and some cycles.
 */

import type { JobSpec } from "../../domain/job/job.ts";
import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import { scheduledPart } from "../../domain/lease/gang-request.ts";
import type { GangRequest, HostGpus } from "../../domain/lease/lease.ts";
import { jobId as toJobId, runId } from "../../domain/values/ids.ts";
import { apply } from "../ledger/apply/apply.ts";
import type { DecidePorts, Policies } from "../cycle/cycle.ts";
import { decide } from "../cycle/decide.ts";
import { explainRequest, type RequestAnswer } from "./explain.ts";
import { forecast, type Forecast, type ForecastOptions } from "../forecast/forecast.ts";
import {
  evictionFor,
  laterPreemption,
  type Eviction,
  type LaterPreemption,
} from "./later-preemption.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { whoKeeps, type Kept } from "./gives-way.ts";
import { isNever, neverOf, type Never } from "./never.ts";

export type WhatIf =
  | {
      readonly kind: "starts";
      readonly gpus: readonly HostGpus[];
      /** Gangs of a job array that start at once. */
      readonly slots?: number;
      readonly reason: string;
      /** What the models expect of these GPUs, and of the best that were found. */
      readonly bandwidth?: BandwidthNote;
    }
  /** GPUs are reserved for the job, and other jobs are evicted from them. */
  | ({ readonly kind: "preempts" } & Eviction)
  | {
      readonly kind: "waits";
      readonly answer: WaitingAnswer;
      readonly forecast?: Forecast;
      /** The preemption it would cause once its victims are no longer protected. */
      readonly preempts?: LaterPreemption;
      /** Why no job would give way to it now. */
      readonly kept: readonly Kept[];
    }
  /** Not even on the idle fleet: only another fleet, quota or job would help. */
  | ({ readonly kind: "never" } & Never)
  | { readonly kind: "refused"; readonly message: string };

type WaitingAnswer = Extract<RequestAnswer, { readonly kind: "waiting" }>;

export interface WhatIfOptions extends Omit<ForecastOptions, "ports" | "policies"> {
  readonly ports?: DecidePorts;
  readonly policies?: Policies;
}

/** An id that no job has, because keys of jobs cannot begin with it. */
const NOBODY = toJobId("orbweaver-what-if");

/** What a job would ask of the fleet now. */
export const trialRequest = (spec: JobSpec, nowMs: number): GangRequest => {
  return {
    ...scheduledPart(spec),
    jobId: NOBODY,
    runId: runId("what-if"),
    seq: 1,
    submittedAtMs: nowMs,
    requestedAtMs: nowMs,
  };
};

/** Users must not see the stand-in's id. */
export const withoutStandIn = (message: string): string => message.replace(`${NOBODY} `, "it ");

/** Why no end of other jobs would start it; undefined where one would, or where the fleet would not take its request at all. */
export function neverFor(ledger: Ledger, spec: JobSpec, nowMs: number): Never | undefined {
  const asked = withTrial(ledger, spec, nowMs);
  return asked && neverOf(asked, NOBODY, { nowMs });
}

/** Whether `neverFor` has an answer: one cycle. */
export function wouldNeverStart(ledger: Ledger, spec: JobSpec, nowMs: number): boolean {
  const asked = withTrial(ledger, spec, nowMs);
  return asked !== undefined && isNever(asked, NOBODY, nowMs);
}

function withTrial(ledger: Ledger, spec: JobSpec, nowMs: number): Ledger | undefined {
  const entries = [{ kind: "request", request: trialRequest(spec, nowMs) }];
  const { ledger: asked, refusals } = apply(ledger, { kind: "inbox", entries, nowMs });
  return refusals.length > 0 ? undefined : asked;
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
    const { reason, bandwidth } = first;
    return {
      kind: "starts",
      gpus,
      ...(slots > 0 && { slots }),
      reason,
      ...(bandwidth !== undefined && { bandwidth }),
    };
  }
  const eviction = evictionFor(plan, ledger, jobId);
  if (eviction !== undefined) return { kind: "preempts", ...eviction };
  const answer = explainRequest(asked, jobId, { nowMs, ...(ports !== undefined && { ports }) });
  if (answer.kind !== "waiting") return { kind: "refused", message: `${jobId} is known already` };
  const never = neverOf(asked, jobId, options);
  if (never !== undefined) return { kind: "never", ...never };
  // When it starts does not depend on bandwidths, and a forecast plays many cycles.
  const timed = { ...options, ports: {} };
  const [found] = forecast(asked, [jobId], timed);
  const preempts = laterPreemption(asked, jobId, timed);
  return {
    kind: "waits",
    answer,
    kept: whoKeeps(asked, jobId, nowMs),
    ...(found !== undefined && { forecast: found }),
    ...(preempts !== undefined && { preempts }),
  };
}
