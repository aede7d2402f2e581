/** @file When a job that waits will start, and what would start it now, worked out on the fleet's ledger and told in few lines. */

import type { JobId } from "../domain/ids.ts";
import { forecast, type Forecast } from "../scheduling/forecast.ts";
import { laterPreemption, type LaterPreemption } from "../scheduling/later-preemption.ts";
import type { Ledger } from "../scheduling/ledger.ts";
import { unblock, type Change } from "../scheduling/unblock.ts";
import { counted, durationText, timeText } from "./duration.ts";

export interface Prospect {
  /** Absent for a job that nothing but a change would start. */
  readonly forecast?: Forecast;
  /** Whom it would preempt when they are no longer protected. */
  readonly preempts?: LaterPreemption;
  /** Cheapest first. */
  readonly changes: readonly Change[];
}

export function prospectOf(
  ledger: Ledger,
  job: JobId,
  { nowMs, isHopeless }: { readonly nowMs: number; readonly isHopeless: boolean },
): Prospect {
  const changes = unblock(ledger, job, { nowMs });
  if (isHopeless) return { changes };
  const [found] = forecast(ledger, [job], { nowMs });
  const preempts = laterPreemption(ledger, job, { nowMs });
  return {
    changes,
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

/** `in 4m10s to 1h05m (80 %), in the median 12m00s (…)`, and what it is from. */
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
  const to = toMs === Infinity ? "more than can be told" : durationText(toMs - nowMs);
  const median =
    medianMs === Infinity
      ? ""
      : `, in the median ${durationText(medianMs - nowMs)} (${timeText(medianMs)})`;
  return `in ${from} to ${to} (80 %)${median}\nfrom ${basis}`;
}

/** The cheapest, then the cheapest of each other kind. */
export function changesText(changes: readonly Change[]): string | undefined {
  const kinds = new Set<string>();
  const lines = changes.flatMap((change) => {
    if (kinds.has(change.kind) || kinds.size >= MAX_CHANGES) return [];
    kinds.add(change.kind);
    return [changeText(change)];
  });
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

/** JSON has no infinity: what is beyond all plays is absent. */
export function forecastDocument({ fromMs, medianMs, toMs, ...rest }: Forecast): object {
  const finite = Object.entries({ fromMs, medianMs, toMs }).filter(([, atMs]) => atMs < Infinity);
  return { ...rest, ...Object.fromEntries(finite) };
}
