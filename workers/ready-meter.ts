/** @file How long after their grants the jobs of this agent run, as a histogram among the metrics that the agent serves (`agent --metrics`). */

import { Runtime } from "@temporalio/worker";
import type { JobClass } from "../domain/job/job.ts";

/** The exporter adds the unit to the name. */
const NAME = "orbweaver_ready";

/** 10 ms to an hour, in steps of about three: an image that is fetched takes minutes. */
export const READY_BUCKETS: Readonly<Record<string, number[]>> = {
  [NAME]: [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1_000, 3_600],
};

/** Says nothing where the process serves no metrics. */
export function readyMeter(): (jobClass: JobClass, seconds: number) => void {
  const histogram = Runtime.instance().metricMeter.createHistogram(
    NAME,
    "float",
    "seconds",
    "From a grant to running processes, on the gang's first host.",
  );
  return (jobClass, seconds) => histogram.record(seconds, { class: jobClass });
}
