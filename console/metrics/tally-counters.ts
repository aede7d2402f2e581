/** @file Counters of what only jobs' own histories know, from the sums of the history database: how jobs ended, what their GPU-seconds were worth, and how far off expected bandwidths were. */

import { Counter, type OpenMetricsContentType, type Registry } from "prom-client";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import type { Tally } from "../history/tallies.ts";

const OUTCOMES = ["completed", "failed", "cancelled", "terminated", "timed out"] as const;
/** `ended`: nobody reported how, and its job is over. */
const RUN_ENDS = ["completed", "failed", "stopped", "ended"] as const;
const KINDS = ["useful", "lost", "idle"] as const;

/** The answer sets all of them; without a database they have no series. */
export function tallyCounters(
  registry: Registry<OpenMetricsContentType>,
): (tallies: readonly Tally[] | undefined) => void {
  const counter = <Name extends string>(
    name: string,
    help: string,
    labelNames: readonly Name[],
  ): Counter<Name> =>
    new Counter({
      ...{ name: `orbweaver_${name}`, help },
      ...{ labelNames: [...labelNames], registers: [registry] },
    });
  const jobs = counter("jobs_finished_total", "Jobs that have ended, by how.", [
    ...(["class", "outcome"] as const),
  ]);
  const gpuSeconds = counter(
    "lease_gpu_seconds_total",
    "GPU-seconds of leases that are over: useful, lost since the last checkpoint, or idle before and after the processes; by how the run ended.",
    ["class", "kind", "end"],
  );
  const predictions = counter(
    "bandwidth_predictions_total",
    "Gangs whose expected bandwidth was measured.",
    ["class"],
  );
  const errors = counter(
    "bandwidth_prediction_error_ratio_total",
    "Sum over these gangs of |measured / expected - 1|.",
    ["class"],
  );
  const all = [jobs, gpuSeconds, predictions, errors];

  return (tallies) => {
    for (const each of all) each.reset();
    if (tallies === undefined) return;
    for (const name of JOB_CLASSES) {
      for (const outcome of OUTCOMES) jobs.inc({ class: name, outcome }, 0);
      for (const kind of KINDS)
        for (const end of RUN_ENDS) gpuSeconds.inc({ class: name, kind, end }, 0);
      predictions.inc({ class: name }, 0);
      errors.inc({ class: name }, 0);
    }
    for (const { name, class: jobClass, end, value } of tallies)
      if (name === "jobs") jobs.inc({ class: jobClass, outcome: end }, value);
      else if (name === "predictions") predictions.inc({ class: jobClass }, value);
      else if (name === "prediction-error") errors.inc({ class: jobClass }, value / 1e6);
      else gpuSeconds.inc({ class: jobClass, kind: name, end }, value / 1e3);
  };
}
