/** @file What a model service has done, for Prometheus and in the words of the statistics extension of the Open Inference Protocol. */

import type { ModelService } from "./model-service.ts";

/** `bodiesBytes`: of the bodies that are read or answered now. */
export function metricsText({ batcher }: ModelService, bodiesBytes: number): string {
  const { waiting, running, answered, failed, turnedAway, runs, rows, runMs } = batcher.counts();
  const rowsOf = [
    ["orbweaver_serving_waiting", "gauge", "Queued requests", waiting],
    ["orbweaver_serving_running", "gauge", "Runs in progress", running],
    ["orbweaver_serving_body_bytes", "gauge", "Bodies of requests under way", bodiesBytes],
    ["orbweaver_serving_answered_total", "counter", "Requests answered", answered],
    ["orbweaver_serving_failed_total", "counter", "Requests that the model failed on", failed],
    ["orbweaver_serving_turned_away_total", "counter", "Requests refused with 429", turnedAway],
    ["orbweaver_serving_runs_total", "counter", "Runs of the model", runs],
    ["orbweaver_serving_rows_total", "counter", "Rows in all runs", rows],
    ["orbweaver_serving_run_seconds_total", "counter", "Time of all runs", runMs / 1_000],
  ] as const;
  return rowsOf
    .map(
      ([name, type, help, value]) =>
        `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${name} ${value}\n`,
    )
    .join("");
}

/** Times are of runs, which requests share; only those that the service keeps. */
export function statistics({ name, batcher }: ModelService): unknown {
  const { answered, failed, runs, rows, runMs } = batcher.counts();
  return {
    model_stats: [
      {
        name,
        inference_count: rows,
        execution_count: runs,
        inference_stats: {
          success: { count: answered },
          fail: { count: failed },
          compute_infer: { count: runs, ns: Math.round(runMs * 1e6) },
        },
      },
    ],
  };
}
