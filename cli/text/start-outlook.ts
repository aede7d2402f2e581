/**
 * @file When a waiting job will start, and which changes would start it now, computed from the fleet's ledger, as a few lines
 * of text.
 */

import type { JobId } from "../../domain/values/ids.ts";
import { forecast, type Forecast } from "../../scheduling/forecast/forecast.ts";
import {
  laterPreemption,
  type LaterPreemption,
} from "../../scheduling/explain/later-preemption.ts";
import { whoKeeps, type Kept } from "../../scheduling/explain/gives-way.ts";
import { neverOf, type Never } from "../../scheduling/explain/never.ts";
import { placesInQueue } from "../../scheduling/explain/queue-order.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { firstOfEachKind, unblock, type Change } from "../../scheduling/explain/remedies.ts";
import { counted, durationText, timeText } from "../terminal/duration.ts";

export interface ClusterFit {
  /** Its place in the queue, from 1. */
  readonly position?: number;
  /** Why not even the idle fleet would start it. */
  readonly never?: Never;
  /** Absent for a job that starts only after a change. */
  readonly forecast?: Forecast;
  /** The jobs that it would preempt when they are no longer protected. */
  readonly preempts?: LaterPreemption;
  /** Why no job gives way to it now. */
  readonly kept: readonly Kept[];
  /** Those that would start it at once, cheapest first. */
  readonly changes: readonly Change[];
}

/** Why a job starts never, and what would change that. */
export function neverFacts({ changes }: Never): readonly (readonly [string, string])[] {
  const help =
    changesText(changes) ??
    "no single change that was tried; the message above says what is missing";
  return [
    ["starts", "never, not even on the idle fleet"],
    ["would change it", help],
  ];
}

export function outlookOf(
  ledger: Ledger,
  job: JobId,
  { nowMs }: { readonly nowMs: number },
): ClusterFit {
  const place = placesInQueue(ledger, { nowMs }).get(job);
  const position = place === undefined ? {} : { position: place };
  const never = neverOf(ledger, job, { nowMs });
  if (never !== undefined) return { ...position, never, kept: [], changes: [] };
  const [found] = forecast(ledger, [job], { nowMs });
  const preempts = laterPreemption(ledger, job, { nowMs });
  return {
    ...position,
    kept: whoKeeps(ledger, job, nowMs),
    changes: unblock(ledger, job, { nowMs }),
    ...(found !== undefined && { forecast: found }),
    ...(preempts !== undefined && { preempts }),
  };
}

/** `v4 (lease-5) in 23s, when it is no longer protected: 190 GPU-seconds are lost`. */
export function laterText({ atMs, victims }: LaterPreemption, nowMs: number): string {
  const names = victims.map(({ jobId, lease }) => `${jobId} (${lease})`).join(", ");
  const lost = victims.reduce((sum, { lostGpuSeconds }) => sum + lostGpuSeconds, 0);
  const they = victims.length === 1 ? "it is" : "they are";
  return `${names} in ${durationText(atMs - nowMs)}, when ${they} no longer protected: ${gpuTime(lost)} of work lost, unless it starts before`;
}

/** `in 4m10s to 1h05m (80 %), in the median 12m00s (…)`, with the source of the estimate. */
export function forecastText(
  { fromMs, medianMs, toMs, plays, runs, learned }: Forecast,
  nowMs: number,
): string {
  const basis = [
    `${counted(plays, "play")} of the queue`,
    counted(runs, "noted run"),
    ...(learned > 0 ? [`${counted(learned, "former estimate")} that came out`] : []),
  ].join(", ");
  if (fromMs === Infinity) return `not within 30 days, in ${basis}`;
  const from = durationText(fromMs - nowMs);
  const to = toMs === Infinity ? "an unknown time" : durationText(toMs - nowMs);
  const median =
    medianMs === Infinity
      ? ""
      : `, in the median ${durationText(medianMs - nowMs)} (${timeText(medianMs)})`;
  return `in ${from} to ${to} (80 %)${median}\nfrom ${basis}`;
}

/** The cheapest change, then the cheapest of each other kind. */
export function changesText(changes: readonly Change[]): string | undefined {
  const lines = firstOfEachKind(changes, MAX_CHANGES).map(changeText);
  return lines.length === 0 ? undefined : lines.join("\n");
}

const MAX_CHANGES = 4;

function changeText({ text, gpus, clusters, lostGpuSeconds }: Change): string {
  const price = lostGpuSeconds > 0 ? `, which loses ${gpuTime(lostGpuSeconds)} of work` : "";
  return `${text}${price}: ${counted(gpus, "GPU")} in ${clusters.join(", ")}`;
}

/** `40 GPU-seconds`, `3.2 GPU-hours`. */
export const gpuTime = (gpuSeconds: number): string =>
  gpuSeconds < 3_600
    ? `${String(Math.round(gpuSeconds))} GPU-seconds`
    : `${(gpuSeconds / 3_600).toFixed(1)} GPU-hours`;

/** JSON has no infinity, so a bound beyond all simulations is absent. */
export function forecastDocument({ fromMs, medianMs, toMs, ...rest }: Forecast): object {
  const finite = Object.entries({ fromMs, medianMs, toMs }).filter(([, atMs]) => atMs < Infinity);
  return { ...rest, ...Object.fromEntries(finite) };
}
