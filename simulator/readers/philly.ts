/**
 * @file Jobs of the Philly trace (Microsoft, 2017): timestamp, duration, num_gpus, cluster; gpu_time is their product and not read.
 *
 * Submitted at `timestamp` (wall time), runs `duration` seconds on `num_gpus` GPUs; the tenant is the virtual cluster `cluster`. All
 * jobs are training: the trace is of a cluster for training. It has no estimates, users, priorities or GPU types. A job is called
 * `philly-N` by its data row, the first being 0. The rows themselves are read by `domain/trace/parse-philly.ts`.
 */

import { readPhillyTrace } from "../../domain/trace/parse-philly.ts";
import { traceDraft, type JobsReader } from "./trace.ts";

export const readPhilly: JobsReader = (text, { source }) => {
  const trace = readPhillyTrace(text, { source });
  if (trace.kind === "refused") return trace;
  const draft = traceDraft(source, trace.badRows);
  for (const { row, submittedMs, durationMs, gpus, virtualCluster } of trace.rows) {
    draft.add({
      line: row,
      submittedMs,
      id: `philly-${String(row)}`,
      durationMs,
      gpus,
      class: "training",
      tenant: virtualCluster,
    });
  }
  return draft.done({ isWallTime: true });
};
